// SPDX-License-Identifier: MIT
/* What the tests of semantics and of slack share: see cases.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"

const char *state;
struct off *off;

/* Outcomes */

void fails(const char *format, ...)
{
	va_list words;

	va_start(words, format);
	printf("# ");
	vprintf(format, words);
	printf("\n");
	va_end(words);
	fflush(stdout);
	_exit(1);
}

void skips(const char *reason)
{
	printf("# skipped: %s\n", reason);
	fflush(stdout);
	_exit(SKIPPED);
}

void value(const char *name, long number)
{
	printf("# value %s.%s %ld\n", state, name, number);
}

/* The system */

long read_number(const char *path, const char *key)
{
	char line[256];
	long found = -1;
	FILE *file = fopen(path, "re");

	while (file && found < 0 && fgets(line, sizeof(line), file))
		if (!strncmp(line, key, strlen(key)))
			found = strtol(line + strlen(key) + strspn(line + strlen(key), ": \t"), NULL, 10);
	if (file)
		fclose(file);
	return found;
}

long of_process(const char *key)
{
	return read_number("/proc/self/status", key);
}

int write_file(const char *path, const char *format, ...)
{
	char text[128];
	va_list words;
	ssize_t done = -1;
	int length, file = open(path, O_WRONLY | O_CLOEXEC);

	va_start(words, format);
	length = vsnprintf(text, sizeof(text), format, words);
	va_end(words);
	if (file >= 0) {
		done = write(file, text, (size_t)length);
		close(file);
	}
	return done == length ? 0 : -1;
}

/* Where a switch is: an administrator's, or of a part. */
const char *knob(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), KNOBS "%s", name);
	if (access(path, F_OK))
		snprintf(path, sizeof(path), PARTS "%s", name);
	return path;
}

bool has_knob(const char *name)
{
	return !access(knob(name), F_OK);
}

bool thp_always(void)
{
	return read_number("/sys/kernel/mm/transparent_hugepage/enabled", "[always]") >= 0;
}

long minor_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

/* Lines of /proc/self/maps, without allocating memory meanwhile. */
char *maps(void)
{
	static char texts[2][1 << 17];
	static int turn;
	char *text = texts[turn ^= 1];
	size_t length = 0;
	ssize_t got;
	int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	while ((got = read(file, text + length, sizeof(texts[0]) - 1 - length)) > 0)
		length += (size_t)got;
	text[length] = '\0';
	close(file);
	return text;
}

long count_vmas(void)
{
	long n = 0;

	for (const char *at = maps(); (at = strchr(at, '\n')); at++)
		n++;
	return n;
}

/* Where a heap really ends, whose mapping is shown as far as the break; before what `next`, a line of maps, shows. */
static uintptr_t end_of_heap(uintptr_t top, const char *next)
{
	uintptr_t most = top + 2 * HUGE, start;
	unsigned char resident;

	if (next && sscanf(next, "%lx-", &start) == 1 && start < most)
		most = start;
	while (top < most && !mincore((void *)top, PAGE, &resident))
		top += PAGE;
	return top;
}

/* The mapping that holds an address, with what is kept behind a heap. */
bool find_vma(const void *address, uintptr_t *start, uintptr_t *end)
{
	uintptr_t top = ((uintptr_t)syscall(SYS_brk, 0) + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
	char *next;

	for (char *line = maps(); line && *line; line = next) {
		next = strchr(line, '\n') + 1;
		if (sscanf(line, "%lx-%lx", start, end) != 2)
			continue;
		if (*end == top)
			*end = end_of_heap(top, next);
		if (*start <= (uintptr_t)address && (uintptr_t)address < *end)
			return true;
	}
	return false;
}

/* The end of the mapping that holds an address; 0: nothing is mapped there. */
uintptr_t end_of(const void *address)
{
	uintptr_t start, end;

	return find_vma(address, &start, &end) ? end : 0;
}

bool is_mapped(const void *address)
{
	return end_of(address) != 0;
}

/* Reading from a pipe into a page tells whether it can be written, without a signal. */
bool can_be_written(void *at)
{
	int ends[2];
	bool can;

	if (pipe(ends) || write(ends[1], "", 1) != 1)
		fails("pipe: %s", strerror(errno));
	can = read(ends[0], at, 1) == 1;
	if (!can && errno != EFAULT)
		fails("read: %s", strerror(errno));
	close(ends[0]);
	close(ends[1]);
	return can;
}

/* Bytes that a range has in hugepages. */
size_t in_hugepages(const char *at, size_t bytes)
{
	uint64_t entry;
	size_t n = 0;
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	int flags = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);

	if (pagemap < 0 || flags < 0)
		skips("no /proc/kpageflags");
	for (const char *page = at; page < at + bytes; page += PAGE) {
		if (pread(pagemap, &entry, 8, (off_t)((uintptr_t)page / PAGE * 8)) != 8 || !(entry >> 63))
			continue;
		if (pread(flags, &entry, 8, (off_t)((entry & ((1ul << 55) - 1)) * 8)) == 8 && entry >> 22 & 1)
			n += PAGE;
	}
	close(pagemap);
	close(flags);
	return n;
}

char *map_with(size_t bytes, int flags)
{
	char *got = mmap(NULL, bytes, RW, flags, -1, 0);

	if (got == MAP_FAILED)
		fails("mmap of %zu KiB: %s", bytes / KIB, strerror(errno));
	return got;
}

char *map(size_t bytes)
{
	return map_with(bytes, PLAIN);
}

void fill(char *at, size_t bytes, int seed)
{
	for (size_t i = 0; i < bytes; i += PAGE)
		*(volatile long *)(at + i) = (long)i + seed;
}

void wait_for(int child)
{
	int status;

	if (waitpid(child, &status, 0) != child || status)
		fails("the child ended with status %#x", (unsigned)status);
}

void expect(const char *at, size_t bytes, int seed, const char *where)
{
	for (size_t i = 0; i < bytes; i += PAGE)
		if (*(const volatile long *)(at + i) != (seed ? (long)i + seed : 0))
			fails("%s: wrong contents at offset %#zx", where, i);
}

void limit(int which, long bytes)
{
	struct rlimit limit = { (rlim_t)bytes, (rlim_t)bytes };

	if (setrlimit(which, &limit))
		fails("setrlimit: %s", strerror(errno));
}

void enter_group(const char *max, const char *swap)
{
	write_file("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
	if (mkdir(GROUP, 0755) && errno != EEXIST)
		skips("no memory control group");
	if (write_file(GROUP "/memory.max", "%s", max) || write_file(GROUP "/memory.swap.max", "%s", swap) ||
	    write_file(GROUP "/cgroup.procs", "0"))
		skips("the memory control group cannot be set");
}

/*
 * Has a userfaultfd watch a range, which is told what becomes of it, besides faults: UFFD_FEATURE_EVENT_... With
 * UFFD_FEATURE_PAGEFAULT_FLAG_WP it can protect the range.
 */
int watch(const char *at, size_t bytes, unsigned long features)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	struct uffdio_register range = { .range = { (uintptr_t)at, bytes },
					 .mode = features & UFFD_FEATURE_PAGEFAULT_FLAG_WP
							 ? UFFDIO_REGISTER_MODE_WP
							 : UFFDIO_REGISTER_MODE_MISSING };
	int handle = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (handle < 0 || ioctl(handle, UFFDIO_API, &api))
		skips("no userfaultfd that can do this");
	if (ioctl(handle, UFFDIO_REGISTER, &range))
		fails("UFFDIO_REGISTER: %s", strerror(errno));
	return handle;
}

void *give_back(void *advice)
{
	struct advice *given = advice;

	given->result = madvise(given->start, given->bytes, given->advice);
	return NULL;
}

/*
 * What a userfaultfd is told of, waits until that has been read: so it runs in a thread. Something else may be done
 * while it waits.
 */
struct uffd_msg told_by(int handle, void *(*act)(void *), void *with, void (*meanwhile)(void))
{
	struct pollfd ready = { handle, POLLIN, 0 };
	struct uffd_msg message;
	pthread_t thread;

	if (pthread_create(&thread, NULL, act, with))
		fails("no thread");
	if (poll(&ready, 1, 10000) != 1)
		fails("nothing is told");
	if (meanwhile)
		meanwhile();
	if (read(handle, &message, sizeof(message)) != sizeof(message))
		fails("what is told cannot be read: %s", strerror(errno));
	pthread_join(thread, NULL);
	return message;
}

void expect_told(struct uffd_msg message, int event, const char *start, const char *end)
{
	if (message.event != event || message.arg.remove.start != (uintptr_t)start ||
	    message.arg.remove.end != (uintptr_t)end)
		fails("event %d, %#llx to %#llx; expected %d, %p to %p", message.event, message.arg.remove.start,
		      message.arg.remove.end, event, (const void *)start, (const void *)end);
}

bool trace_has(const char *words)
{
	char line[512];
	bool found = false;
	FILE *file = fopen(TRACE "trace", "re");

	while (file && !found && fgets(line, sizeof(line), file))
		found = strstr(line, words);
	if (file)
		fclose(file);
	return found;
}

/* A suite of KUnit's, which ran when the kernel booted. */
void kunit(const char *suite, long fewest)
{
	char path[128], line[256];
	long passed = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/kernel/debug/kunit/%s/results", suite);
	file = fopen(path, "re");
	if (!file)
		skips("the kernel has no such KUnit test");
	while (fgets(line, sizeof(line), file)) {
		if (strstr(line, "not ok"))
			fails("%s", line);
		passed += !!strstr(line, "ok ");
	}
	fclose(file);
	value("kunit.lines", passed);
	if (passed < fewest)
		fails("%ld tests of KUnit passed", passed);
}

/* Running them */

static int run_one(const struct test *test, size_t theme, size_t number, size_t shown)
{
	char words[2][24];
	int status;
	pid_t child;

	snprintf(words[0], sizeof(words[0]), "%zu", theme);
	snprintf(words[1], sizeof(words[1]), "%zu", number);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		personality(test->fixed ? ADDR_NO_RANDOMIZE : 0);
		execl("/proc/self/exe", "test", "case", state, words[0], words[1], NULL);
		_exit(127);
	}
	waitpid(child, &status, 0);
	rmdir(GROUP);
	if (WIFSIGNALED(status))
		printf("# signal %d\n", WTERMSIG(status));
	printf("%sok %zu - %s: %s%s\n", status && status != SKIPPED << 8 ? "not " : "", shown, state, test->name,
	       status == SKIPPED << 8 ? " # SKIP" : "");
	return status && status != SKIPPED << 8;
}

/* Returns how many failed. */
static int run_all(const char *only, size_t *shown)
{
	int failed = 0;

	*shown = 0;
	for (size_t i = 0; themes[i]; i++)
		for (size_t j = 0; themes[i][j].name; j++) {
			++*shown;
			if (!only || strstr(themes[i][j].name, only))
				failed += run_one(&themes[i][j], i, j, *shown);
		}
	return failed;
}

/* A program of its own for each; standard input is what they have in common. */
static int run_case(char **words)
{
	state = words[0];
	/* Far from where the kernel would put it, so that there is nothing behind a first mapping. */
	off = mmap((void *)(1ul << 40), sizeof(*off), RW, MAP_SHARED, 0, 0);
	if (off == MAP_FAILED)
		fails("nothing is shared: %s", strerror(errno));
	alarm(1200); /* the clock of a slow machine may be fast */
	themes[atoi(words[1])][atoi(words[2])].run();
	fflush(stdout);
	_exit(0);
}

int run_tests(int argc, char **argv)
{
	static char buffer[1 << 14]; /* not from the heap, which is tested */
	const char *only = argc > 1 ? argv[1] : NULL;
	int failed, shared;
	size_t shown;

	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	if (argc == 5 && !strcmp(only, "case"))
		return run_case(argv + 2);
	shared = memfd_create("shared", 0);
	if (shared < 0 || ftruncate(shared, sizeof(*off)) || dup2(shared, 0) < 0)
		fails("memfd: %s", strerror(errno));
	/* It would make hugepages as well, at any time: what faults make is counted. Once, as writing this wakes it. */
	write_file("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", "100000000");
	state = "stock";
	if (access(KNOB, W_OK)) {
		printf("# no %s that can be written: each case runs once, as stock\n", KNOB);
		failed = run_all(only, &shown);
	} else {
		state = "off";
		failed = write_file(KNOB, "never") ? 1 : run_all(only, &shown);
		state = "on";
		failed += write_file(KNOB, "always") ? 1 : run_all(only, &shown);
	}
	printf("1..%zu\n# %d failed\n", shown, failed);
	fflush(stdout);
	return failed ? 1 : 0;
}
