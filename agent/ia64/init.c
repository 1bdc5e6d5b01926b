// SPDX-License-Identifier: MIT
/*
 * First process of the Itanium machine: runs one cell, says what the kernel counted of it, and ends the machine.
 *
 * It reads and says what abh-init.c does, as far as this machine has it: the cell is a file of its RAM disk, the kernel
 * has no control groups, and every run boots, so nothing is frozen.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

/* As agent/protocol.h has them. */
#define HEAD "ABHCELL 2"
enum { CELL_BYTES = 8192, MAX_WORDS = 64 };

/*
 * Marks of what is counted: a hint that the machine tells its user (MARKS in its crate `cpu`), and a nop to any other.
 * "memory" keeps the compiler from moving loads and stores across.
 */
#ifndef MARK
#define MARK(number) __asm__ volatile("hint.m %0" : : "i"(number) : "memory")
#endif
/* As GNU as has them: bits from the fourth on go two places further, so the machine finds 0x41 and 0x42. */
enum { BEGIN = 0x11, END = 0x12 };

enum { CREATE = 0101, TRUNCATE = 01000, CHILD = 17, ALARM = 14, OUTPUT_LINES = 200, SIZES = 16 };
/* Another where the agent is tried on a plain Linux. */
#ifndef ROOT
#define ROOT ""
#endif
#define CELL ROOT "/cell"
#define OUTPUT ROOT "/output"
#define SUPERPAGES ROOT "/proc/superpages"

struct cell {
	char *argv[MAX_WORDS + 1], *environment[MAX_WORDS + 1], *cwd;
	int words, variables;
	long timeout_s;
};

/* What the kernel has counted: of each size, and of all. */
struct superpages {
	int sizes;
	long kib[SIZES], faulted[SIZES], failed, demoted;
};

/* What wait4() gives of a process, up to what is asked here (struct rusage: two times before). */
struct usage {
	long times[4], peak_kib, unused[3], minor_faults, major_faults, more[8];
};

static void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("ABH ");
	vprintf(format, args);
	putchar('\n');
	va_end(args);
}

/* The last line says how the cell did; the kernel's reset ends the machine. */
static void finish(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("ABH end ");
	vprintf(format, args);
	putchar('\n');
	va_end(args);
	for (;;)
		call(0xfee1dead, 672274793, 0x01234567, 0, 0, 0, CALL_REBOOT);
}

/* A file, up to a size; its length, or an error. */
static long read_file(const char *path, char *text, long size)
{
	long got = 1, held = 0, file = call((long)path, 0, 0, 0, 0, 0, CALL_OPEN);

	if (file < 0)
		return file;
	while (got > 0 && held < size - 1) {
		got = call(file, (long)(text + held), size - 1 - held, 0, 0, 0, CALL_READ);
		held += got > 0 ? got : 0;
	}
	call(file, 0, 0, 0, 0, 0, CALL_CLOSE);
	text[held] = '\0';
	return held;
}

/* The next line, and what follows it; NULL at the end. */
static char *next_line(char **text)
{
	char *line = *text, *end = line ? strchr(line, '\n') : NULL;

	if (!line || !*line)
		return NULL;
	if (end)
		*end++ = '\0';
	*text = end;
	return line;
}

static void add(char **list, int *count, char *word)
{
	if (*count == MAX_WORDS)
		finish("error more than %d words", MAX_WORDS);
	list[(*count)++] = word;
}

static void take_line(struct cell *cell, char *line)
{
	char *rest = strchr(line, ' ');

	if (rest)
		*rest++ = '\0';
	else
		rest = line + strlen(line);
	if (!strcmp(line, "require")) {
		if (call((long)rest, 0, 0, 0, 0, 0, CALL_ACCESS) < 0)
			finish("skip this system has no %s", rest);
	} else if (!strcmp(line, "env")) {
		add(cell->environment, &cell->variables, rest);
	} else if (!strcmp(line, "cwd")) {
		cell->cwd = rest;
	} else if (!strcmp(line, "timeout")) {
		cell->timeout_s = (long)strtoull(rest, NULL, 10);
	} else if (!strcmp(line, "arg")) {
		add(cell->argv, &cell->words, rest);
	} else {
		finish("error unknown line: %s", line);
	}
}

static void read_cell(struct cell *cell)
{
	static char text[CELL_BYTES];
	char *at = text, *line;

	if (read_file(CELL, text, sizeof(text)) <= 0)
		finish("error there is no cell");
	line = next_line(&at);
	if (!line || strcmp(line, HEAD))
		finish("error not a cell: starts with '%s'", line ? line : "");
	while ((line = next_line(&at)) && strcmp(line, "end"))
		take_line(cell, line);
	if (!cell->words || !cell->cwd || !cell->timeout_s)
		finish("error the cell has no command, no folder or no time limit");
}

/* The number behind a word of a line, past both. */
static long number_after(char **at, const char *word)
{
	char *found = *at;

	while (*found && strncmp(found, word, strlen(word)))
		found++;
	return *found ? (long)strtoull(found + strlen(word), at, 10) : 0;
}

/* Lines of "64K faulted 3 failed 0 demoted 1". */
static void read_superpages(struct superpages *all)
{
	static char text[4096];
	char *rest = text, *line;

	memset(all, 0, sizeof(*all));
	if (read_file(SUPERPAGES, text, sizeof(text)) <= 0)
		return;
	while ((line = next_line(&rest)) && all->sizes < SIZES) {
		long kib = number_after(&line, "");

		if (*line != 'K')
			continue;
		all->kib[all->sizes] = kib;
		all->faulted[all->sizes++] = number_after(&line, "faulted ");
		all->failed += number_after(&line, "failed ");
		all->demoted += number_after(&line, "demoted ");
	}
}

static void show_superpages(const struct superpages *before, const struct superpages *after)
{
	for (int i = 0; i < after->sizes; i++)
		say("value superpages_%ldk %ld", after->kib[i], after->faulted[i] - before->faulted[i]);
	say("value superpages_failed %ld", after->failed - before->failed);
	say("value superpages_demoted %ld", after->demoted - before->demoted);
}

static void show_output(void)
{
	static char text[65536];
	char *rest = text, *line;

	if (read_file(OUTPUT, text, sizeof(text)) <= 0)
		return;
	for (int i = 0; i < OUTPUT_LINES && (line = next_line(&rest)); i++)
		say("out %s", line);
}

/* In the child: does not come back. */
static void become_workload(const struct cell *cell)
{
	/* A workload that does not end is ended by its own alarm, which execve() keeps. */
	const long limit[4] = { 0, 0, cell->timeout_s, 0 };
	long file = call((long)OUTPUT, CREATE | TRUNCATE, 0600, 0, 0, 0, CALL_OPEN), got;

	call(0, (long)limit, 0, 0, 0, 0, CALL_SETITIMER);
	if (file < 0 || call(file, 1, 0, 0, 0, 0, CALL_DUP2) < 0 || call(file, 2, 0, 0, 0, 0, CALL_DUP2) < 0 ||
	    call((long)cell->cwd, 0, 0, 0, 0, 0, CALL_CHDIR) < 0)
		exit(126);
	got = call((long)cell->argv[0], (long)cell->argv, (long)cell->environment, 0, 0, 0, CALL_EXECVE);
	printf("init: %s: error %ld\n", cell->argv[0], -got);
	exit(127);
}

static void run_workload(const struct cell *cell)
{
	struct superpages before, after;
	struct usage usage = { 0 };
	int status = 0;
	long child;

	read_superpages(&before);
	say("begin");
	MARK(BEGIN);
	child = call(CHILD, 0, 0, 0, 0, 0, CALL_CLONE);
	if (!child)
		become_workload(cell);
	if (child < 0 || call(child, (long)&status, 0, (long)&usage, 0, 0, CALL_WAIT4) != child)
		finish("error the workload could not be started: %ld", child);
	MARK(END);
	read_superpages(&after);
	show_output();
	say("value minor_faults %ld", usage.minor_faults);
	say("value major_faults %ld", usage.major_faults);
	say("value rss_peak_kib %ld", usage.peak_kib);
	show_superpages(&before, &after);
	if ((status & 127) == ALARM)
		finish("timeout %ld", cell->timeout_s);
	if (status & 127)
		finish("signal %d", status & 127);
	finish("exit %d", status >> 8 & 255);
}

int main(void)
{
	struct cell cell = { 0 };

	call((long)"/proc", 0755, 0, 0, 0, 0, CALL_MKDIR);
	if (call((long)"proc", (long)"/proc", (long)"proc", 0, 0, 0, CALL_MOUNT) < 0)
		finish("error /proc cannot be mounted");
	call((long)"/tmp", 0777, 0, 0, 0, 0, CALL_MKDIR);
	read_cell(&cell);
	run_workload(&cell);
	return 1;
}
