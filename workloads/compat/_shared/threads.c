// SPDX-License-Identifier: MIT
/*
 * What sanitizers watch: threads that allocate, map, grow and share memory without a mistake; or one mistake, asked for.
 *
 *   threads                the work, and its answer
 *   threads use-after-free | race | uninitialized
 *                          a mistake that the sanitizer of that kind is to find
 */
#include <err.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { THREADS = 4, BLOCKS = 4000, MAPPINGS = 32 };
static const size_t MAPPING = 1280 * 1024; /* large enough to be aligned, and no whole hugepage */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t total;
static volatile int shared;

static uint64_t blocks(uint64_t thread)
{
	uint64_t sum = 0, size = 16 + thread;
	unsigned char *table[64] = { 0 };

	for (uint64_t i = 0; i < BLOCKS; i++) {
		unsigned char **place = &table[i * 7 % 64];

		size = size * 1103515245 % 100003 % 20000 + 16;
		*place = realloc(*place, size);
		if (!*place)
			err(1, "realloc");
		memset(*place, (int)(i & 0xff), size);
		sum += (*place)[size / 2] + size;
	}
	for (int i = 0; i < 64; i++)
		free(table[i]);
	return sum;
}

static uint64_t mappings(void)
{
	unsigned char *pieces[MAPPINGS];
	uint64_t sum = 0;

	for (int i = 0; i < MAPPINGS; i++) {
		pieces[i] = mmap(NULL, MAPPING, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (pieces[i] == MAP_FAILED)
			err(1, "mmap");
		for (size_t at = 0; at < MAPPING; at += 4096)
			pieces[i][at] = (unsigned char)(i + 1);
	}
	for (int i = 0; i < MAPPINGS; i++) {
		sum += pieces[i][MAPPING - 4096];
		munmap(pieces[i], MAPPING);
	}
	return sum;
}

static void *work(void *argument)
{
	uint64_t sum = blocks((uintptr_t)argument) + mappings();

	pthread_mutex_lock(&lock);
	total += sum;
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void *touch(void *argument)
{
	shared++;
	return argument;
}

static int mistake(const char *name)
{
	volatile char *block = malloc(64);
	pthread_t other;

	if (!strcmp(name, "use-after-free")) {
		free((void *)block);
		return block[8];
	}
	if (!strcmp(name, "uninitialized"))
		return block[8] ? puts("set") : puts("clear");
	if (strcmp(name, "race") || pthread_create(&other, NULL, touch, NULL))
		errx(2, "no such mistake: %s", name);
	shared++;
	return pthread_join(other, NULL);
}

int main(int argc, char **argv)
{
	pthread_t ids[THREADS];

	if (argc > 1)
		return mistake(argv[1]);
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&ids[i], NULL, work, (void *)i))
			errx(1, "a thread cannot be started");
	for (int i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	printf("answer: %" PRIu64 "\n", total);
	return 0;
}
