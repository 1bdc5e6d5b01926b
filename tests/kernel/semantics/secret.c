// SPDX-License-Identifier: MIT
/* Who may not read /proc/PID/maps of a program does not learn from other files where its memory lies. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cases.h"
#include "semantics.h"

enum { PROGRAMS = 100, COUNTED = 9, RSS = COUNTED, OF_ROOT, FIELDS };

/* The same in each run, but for where it lies: a heap that grows, shrinks and grows again, and mappings. */
int holds_memory(void)
{
	char *block;

	fill(grow(5 * MIB), 5 * MIB, 1);
	sbrk(-(intptr_t)(3 * MIB / 2));
	grow(MIB / 4);
	fill(map(ODD), ODD, 1);
	block = map(HUGE + ODD);
	fill(block, HUGE + ODD, 1);
	munmap(block, MIB);
	for (int i = 0; i < 3; i++)
		fill(map(ARENA), ARENA, 1);
	if (mlock(map(ODD), ODD))
		return 1;
	if (write(1, "", 1) != 1)
		return 1;
	pause();
	return 0;
}

static long of_program(pid_t program, const char *key)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", program);
	return read_number(path, key);
}

/* What any kernel tells anybody. What cannot be read is the same each time, too. */
static long told(long number)
{
	if (number < 0)
		_exit(5);
	return number;
}

/* What an ordinary user sees; the stack's own size depends on the environment, and on chance in stock. */
static void look(pid_t program, long *seen)
{
	long stack = told(of_program(program, "VmStk")), pages[7];
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", program);
	if (!access(path, R_OK) && open(path, O_RDONLY) >= 0)
		_exit(2);
	snprintf(path, sizeof(path), "/proc/%d/statm", program);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%ld %ld %ld %ld %ld %ld %ld", &pages[0], &pages[1], &pages[2], &pages[3], &pages[4],
			    &pages[5], &pages[6]) != 7)
		_exit(3);
	seen[0] = told(of_program(program, "VmPeak")) - stack;
	seen[1] = told(of_program(program, "VmSize")) - stack;
	seen[2] = told(of_program(program, "VmData"));
	seen[3] = told(of_program(program, "VmLck"));
	seen[4] = of_program(program, "AbhSurplus");
	seen[5] = of_program(program, "AbhSlack");
	seen[6] = pages[0] - stack / 4;
	seen[7] = pages[5] - stack / 4;
	seen[8] = told(read_number("/proc/meminfo", "Committed_AS")) - stack; /* beside what is the same in each run */
	/* Told, not counted: in stock, too, how many hugepages were touched depends on where memory lies. */
	seen[RSS] = told(of_program(program, "VmRSS")) - told(of_program(program, "RssFile"));
}

static void run_and_look(long *seen)
{
	int ready[2], status;
	char byte;
	pid_t program, user;

	if (pipe(ready))
		fails("no pipe");
	program = fork();
	if (program == 0) {
		dup2(ready[1], 1);
		execl("/proc/self/exe", "semantics", "holds", NULL);
		_exit(3);
	}
	if (read(ready[0], &byte, 1) != 1)
		fails("the program does not start");
	user = fork();
	if (user == 0) {
		if (setgid(1000) || setuid(1000))
			_exit(4);
		look(program, seen);
		_exit(0);
	}
	waitpid(user, &status, 0);
	seen[OF_ROOT] = of_program(program, "AbhSurplus");
	kill(program, SIGKILL);
	waitpid(program, NULL, 0);
	close(ready[0]);
	close(ready[1]);
	if (status)
		fails("the other user ended with status %#x", (unsigned)status);
}

/* The entropy of what was seen so often, in bits. */
static double bits(long (*seen)[FIELDS], size_t first, size_t last)
{
	double sum = 0;

	for (size_t i = 0; i < PROGRAMS; i++) {
		int same = 0;

		for (size_t j = 0; j < PROGRAMS; j++)
			same += !memcmp(&seen[i][first], &seen[j][first], (last - first) * sizeof(long));
		sum += log2((double)PROGRAMS / same) / PROGRAMS;
	}
	return sum;
}

static void nothing_is_learned(void)
{
	static const char *const names[FIELDS] = {
		"VmPeak",     "VmSize",     "VmData",    "VmLck", "AbhSurplus",        "AbhSlack",
		"statm_size", "statm_data", "committed", "rss",   "AbhSurplus_of_root"
	};
	size_t bytes = sizeof(long[PROGRAMS][FIELDS]);
	long (*seen)[FIELDS] = mmap(NULL, bytes, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; i < PROGRAMS; i++)
		run_and_look(seen[i]);
	for (size_t i = 0; i < FIELDS; i++)
		printf("# value %s.learned.%s_bits %.2f\n", state, names[i], bits(seen, i, i + 1));
	if (bits(seen, 0, COUNTED) > 0)
		fails("who may not read maps learns %.2f random bits of %d programs", bits(seen, 0, COUNTED), PROGRAMS);
	/* Else there was nothing to learn. */
	if (on() && bits(seen, OF_ROOT, FIELDS) == 0)
		fails("nor does root learn any: AbhSurplus is %ld in each program", seen[0][OF_ROOT]);
}

const struct test semantics_secret[] = {
	{ "nobody else learns where memory lies", nothing_is_learned, false },
	{ NULL, NULL, false },
};
