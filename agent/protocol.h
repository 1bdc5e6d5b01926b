/* SPDX-License-Identifier: MIT */
/* What the agents and the bench say to each other: a cell comes in as lines, answers go out as "ABH …" lines. */
#ifndef ABH_PROTOCOL_H
#define ABH_PROTOCOL_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a cell's first line says after "ABHCELL". 2: all that is counted is of all the workload's processes. */
#define ABH_VERSION "2"

/*
 * The cell travels in a file of fixed size, so that a frozen machine sees the size it saw at boot; a small one,
 * because Linux reads firmware-config files a byte at a time, and in a Xen control domain each byte is a trap.
 */
#define ABH_CELL_BYTES 8192
#define ABH_MAX_WORDS 64

/* Stops the whole emulated machine at this very instruction (pvpanic with "-action panic=pause"); -1 if it can't. */
static inline int abh_freeze(void)
{
	int fd = open("/dev/port", O_WRONLY | O_CLOEXEC), done;

	if (fd < 0)
		return -1;
	done = pwrite(fd, "\x01", 1, 0x505) == 1;
	close(fd);
	return done ? 0 : -1;
}

/* One line of a cell: "KEY REST". */
struct abh_line {
	char *key;
	char *rest;
};

/* Splits the next line off *text; returns 0 at the end or at the line "end". */
static inline int abh_next_line(char **text, struct abh_line *line)
{
	char *start = *text, *stop;

	if (!start || !*start)
		return 0;
	stop = strchr(start, '\n');
	if (stop)
		*stop++ = '\0';
	*text = stop;
	line->key = start;
	line->rest = strchr(start, ' ');
	if (line->rest)
		*line->rest++ = '\0';
	else
		line->rest = start + strlen(start);
	return strcmp(line->key, "end") != 0;
}

/* Reads up to `limit` bytes of a file, or the last `limit` bytes of a disk; the caller frees. NULL if it can't. */
static inline char *abh_read_file(const char *path, size_t limit)
{
	FILE *file = fopen(path, "re");
	struct stat about;
	char *text;
	size_t got;

	if (!file)
		return NULL;
	if (!fstat(fileno(file), &about) && S_ISBLK(about.st_mode))
		fseek(file, -(long)limit, SEEK_END);
	text = calloc(1, limit + 1);
	got = text ? fread(text, 1, limit, file) : 0;
	fclose(file);
	if (!got) {
		free(text);
		return NULL;
	}
	return text;
}

/* The number after KEY in a "key value" table such as /proc/vmstat or memory.stat; -1 if the key is not there. */
static inline long long abh_table_value(const char *table, const char *key)
{
	size_t length = strlen(key);

	for (const char *at = table; at && *at; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
		if (!strncmp(at, key, length) && at[length] == ' ')
			return atoll(at + length + 1);
	return -1;
}

/*
 * How many hugepages of 2 MiB the free memory could give at once, from /proc/buddyinfo: a line for each zone, in which
 * the numbers are of free blocks of 1, 2, 4, ... pages.
 */
static inline long long abh_free_hugepages(const char *buddyinfo)
{
	const int order = 9; /* 512 pages */
	long long sum = 0;

	for (const char *at = buddyinfo; at && *at; at = strchr(at, '\n'), at = at ? at + 1 : NULL) {
		long long blocks;
		int used, skip = 0;

		if (sscanf(at, "Node %*d, zone %*s%n", &skip) < 0 || !skip)
			continue;
		at += skip;
		for (int i = 0; sscanf(at, "%*[ ]%lld%n", &blocks, &used) == 1; i++, at += used)
			sum += i < order ? 0 : blocks << (i - order);
	}
	return sum;
}

#endif
