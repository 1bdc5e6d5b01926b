// SPDX-License-Identifier: MIT
/* What ABH tells of itself, and who gets it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../abh.h"
#include "../cases.h"
#include "semantics.h"

static long counter(const char *name)
{
	return read_number(EVENTS, name);
}

/* Something counts, with ABH on, and does not, with it off. */
#define COUNTS(name, call)                                                                                             \
	do {                                                                                                           \
		long before = counter(name);                                                                           \
		call;                                                                                                  \
		if (on() ? counter(name) <= before : counter(name) != before)                                          \
			fails(name " was %ld, and is %ld after %s", before, counter(name), #call);                     \
	} while (0)

static void counters(void)
{
	char *top, *at;

	if (counter("abh_heap_extended") < 0)
		skips("the kernel has no such counters");
	COUNTS("abh_heap_small", grow(16 * PAGE));
	COUNTS("abh_heap_extended", top = large_heap());
	if (of_process("AbhSurplus") != (on() ? (long)(behind(top) / KIB) : -1))
		fails("AbhSurplus is %ld", of_process("AbhSurplus"));
	COUNTS("abh_heap_kept", brk(top - MIB));
	top = large_heap();
	at = top + 64 * PAGE;
	COUNTS("abh_heap_dropped", mmap(at, PAGE, PROT_READ, PLAIN | MAP_FIXED_NOREPLACE, -1, 0));
	COUNTS("abh_heap_no_room", brk(top + PAGE));
	munmap(at, PAGE);
	top = large_heap();
	madvise(top - MIB, MIB, MADV_NOHUGEPAGE);
	COUNTS("abh_heap_not_plain", brk(top - MIB / 2));
}

/* Of locks there is no way back; so these are in a program of their own. */
static void counters_of_limits(void)
{
	if (counter("abh_heap_extended") < 0)
		skips("the kernel has no such counters");
	large_heap();
	if (write_file("/proc/sys/vm/overcommit_memory", "2"))
		skips("/proc/sys/vm/overcommit_memory cannot be written");
	COUNTS("abh_heap_overcommit", grow(3 * MIB));
	write_file("/proc/sys/vm/overcommit_memory", "0");
	mlockall(MCL_FUTURE);
	COUNTS("abh_heap_locked", grow(PAGE));
}

static void tracepoint(void)
{
	char expected[64];
	char *top;

	if (write_file(TRACE "events/abh/abh_heap/enable", "1"))
		skips("the kernel has no such tracepoint");
	top = large_heap();
	write_file(TRACE "events/abh/abh_heap/enable", "0");
	snprintf(expected, sizeof(expected), "brk=%#lx end=%#lx abh_heap_extended", (uintptr_t)top,
		 (uintptr_t)top + behind(top));
	if (trace_has(expected) != on())
		fails("%s: %s", expected, on() ? "not traced" : "traced");
}

static void arithmetic(void)
{
	kunit("abh", 10);
}

static void books(void)
{
	kunit("thp_reserve_extent", 13);
	kunit("thp_reserve", 8);
	kunit("thp_reserve_promote", 3);
}

/* Who gets it */

#define CHOICES 3

/* Whether a program has ABH that is run by the child of a process which chose. */
static bool chosen(int choice)
{
	int status;
	pid_t child = fork(), grandchild;

	if (child == 0) {
		if (prctl(PR_SET_ABH, choice, 0, 0, 0))
			_exit(3);
		grandchild = fork();
		if (grandchild == 0) {
			execl("/proc/self/exe", "semantics", "member", NULL);
			_exit(3);
		}
		waitpid(grandchild, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
	}
	waitpid(child, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
		fails("prctl(PR_SET_ABH, %d): status %#x", choice, (unsigned)status);
	return !WEXITSTATUS(status);
}

int member(void)
{
	return of_process("AbhSurplus") < 0;
}

/* Whether the kernel began with this policy. */
int booted(const char *policy)
{
	char expected[32];
	char line[64] = "";
	FILE *file = fopen(KNOB, "re");

	snprintf(expected, sizeof(expected), "[%s]", policy);
	if (file && fgets(line, sizeof(line), file) && strstr(line, expected)) {
		printf("booted with abh=%s\n", policy);
		return 0;
	}
	printf("booted with %s, expected %s\n", line, expected);
	return 1;
}

/* Whether a program has ABH that is run from a file with this mode by an ordinary user who asked for it. */
static bool chosen_for(mode_t mode)
{
	static const char *const copy = "/tmp/member";
	static char program[1 << 22];
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to = open(copy, O_WRONLY | O_CREAT | O_TRUNC, 0700);
	ssize_t bytes = read(from, program, sizeof(program));
	int status;
	pid_t child;

	if (bytes <= 0 || write(to, program, (size_t)bytes) != bytes || fchmod(to, mode) || close(to))
		fails("%s: %s", copy, strerror(errno));
	close(from);
	child = fork();
	if (child == 0) {
		if (setuid(1000) || prctl(PR_SET_ABH, PR_ABH_ON, 0, 0, 0))
			_exit(3);
		execl(copy, copy, "member", NULL);
		_exit(3);
	}
	waitpid(child, &status, 0);
	unlink(copy);
	if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
		fails("a program of mode %o: status %#x", (unsigned)mode, (unsigned)status);
	return !WEXITSTATUS(status);
}

/* Where the memory of a program lies that has rights of its own is not for its caller to choose. */
static void choice_for_others(void)
{
	bool own, others;

	if (prctl(PR_GET_ABH, 0, 0, 0, 0) < 0 || write_file(KNOB, "opt-in"))
		skips("the kernel lets no program choose");
	own = chosen_for(0755);
	others = chosen_for(04755);
	write_file(KNOB, on() ? "always" : "never");
	if (!own || others)
		fails("an ordinary program has %s, a set-user-ID one %s", own ? "ABH" : "none",
		      others ? "ABH" : "none");
}

static void choice(void)
{
	static const char *const policies[] = { "never", "opt-in", "always" };
	static const bool expected[][CHOICES] = { { false, false, false },
						  { false, true, false },
						  { true, true, false } };
	bool right = true;

	if (prctl(PR_GET_ABH, 0, 0, 0, 0) < 0)
		skips("the kernel lets no program choose");
	for (int i = 0; i < 3; i++) {
		if (write_file(KNOB, "%s", policies[i]))
			fails("%s: %s is refused", KNOB, policies[i]);
		for (int j = 0; j < CHOICES; j++)
			if (chosen(j) != expected[i][j]) {
				printf("# %s, and choice %d: %d\n", policies[i], j, !expected[i][j]);
				right = false;
			}
	}
	write_file(KNOB, on() ? "always" : "never");
	if (!right)
		fails("a program has ABH that should not, or the other way round");
	if (!prctl(PR_SET_ABH, CHOICES, 0, 0, 0) || !prctl(PR_SET_ABH, 0, 1, 0, 0) || !prctl(PR_GET_ABH, 1, 0, 0, 0))
		fails("prctl() takes what means nothing");
	if (prctl(PR_SET_ABH, PR_ABH_OFF, 0, 0, 0) || prctl(PR_GET_ABH, 0, 0, 0, 0) != PR_ABH_OFF)
		fails("PR_GET_ABH does not tell what was chosen");
}

const struct test semantics_told[] = {
	{ "counters, and /proc/PID/status", counters, false },
	{ "counters of limits and locks", counters_of_limits, false },
	{ "tracepoint of heaps", tracepoint, false },
	{ "KUnit of heaps", arithmetic, false },
	{ "KUnit of reservations", books, false },
	{ "programs choose by prctl", choice, false },
	{ "nobody chooses for set-user-ID programs", choice_for_others, false },
	{ NULL, NULL, false },
};
