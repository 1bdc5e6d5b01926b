// SPDX-License-Identifier: MIT
/*
 * A program that is frozen half-way, and goes on elsewhere: it fills a heap and mappings, waits for a file, checks all,
 * and lets the heap and its break grow.
 */
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 30000, MAPPINGS = 6 };
static const size_t MAPPING = 3584 * 1024;

static unsigned char *blocks[2 * BLOCKS], *mappings[MAPPINGS];

static void take(int from, int to)
{
	for (int i = from; i < to; i++) {
		blocks[i] = malloc(600);
		if (!blocks[i])
			err(1, "malloc");
		memset(blocks[i], i & 0xff, 600);
	}
}

static unsigned check(int blocks_taken)
{
	unsigned sum = 0;

	for (int i = 0; i < blocks_taken; i++) {
		if (blocks[i][0] != (i & 0xff) || blocks[i][599] != (i & 0xff))
			errx(1, "block %d is not what was written to it", i);
		sum = sum * 31 + blocks[i][300];
	}
	for (int i = 0; i < MAPPINGS; i++)
		for (size_t at = 0; at < MAPPING; at += 4096)
			sum = sum * 31 + mappings[i][at];
	return sum;
}

static void say(const char *path, const char *format, unsigned value)
{
	FILE *file = fopen(path, "w");

	if (!file || fprintf(file, format, value) < 0 || fclose(file))
		err(1, "%s", path);
}

int main(int argc, char **argv)
{
	struct timespec tick = { .tv_nsec = 50 * 1000 * 1000 };

	if (argc != 4)
		errx(2, "usage: %s READY GO ANSWER", argv[0]);
	take(0, BLOCKS);
	for (int i = 0; i < MAPPINGS; i++) {
		mappings[i] = mmap(NULL, MAPPING, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (mappings[i] == MAP_FAILED)
			err(1, "mmap");
		memset(mappings[i], i + 1, MAPPING);
	}
	say(argv[1], "%u\n", check(BLOCKS));
	while (access(argv[2], F_OK))
		nanosleep(&tick, NULL);
	check(BLOCKS);
	take(BLOCKS, 2 * BLOCKS);
	/* malloc() goes on in mappings if the break cannot move; so it is asked, too. */
	if (sbrk(8 << 20) == (void *)-1)
		err(1, "the break of a heap that was restored");
	say(argv[3], "answer: %08x\n", check(2 * BLOCKS));
	return 0;
}
