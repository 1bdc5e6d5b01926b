// SPDX-License-Identifier: MIT
/*
 * A server's pattern: waves of load in many threads, after which all is freed and the threads wait. Says how much
 * memory the process has at the end of the last wave, and 1 and 10 seconds after all was freed.
 *
 * usage: idle THREADS MIB (of each thread)
 */
#include <err.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WAVES = 4, THREADS_MAX = 256, CHUNKS_MAX = 1 << 20 };

static pthread_barrier_t barrier;
static size_t bytes;

static unsigned long resident(void)
{
	unsigned long kib = 0;
	char line[256];
	FILE *file = fopen("/proc/self/smaps_rollup", "r");

	if (!file)
		err(1, "/proc/self/smaps_rollup");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "Rss: %lu kB", &kib) == 1)
			break;
	fclose(file);
	if (!kib)
		errx(1, "no Rss in /proc/self/smaps_rollup");
	return kib;
}

static uint64_t next(uint64_t *random)
{
	/* Marsaglia's xorshift. */
	*random ^= *random << 13;
	*random ^= *random >> 7;
	return *random ^= *random << 17;
}

/* Most chunks are small; most of the memory is in large ones, up to 2 MiB. */
static size_t size_of(uint64_t *random)
{
	size_t most = (size_t)1 << (5 + next(random) % (next(random) % 64 ? 8 : 17));

	return 16 + next(random) % most;
}

static void wave(void **chunk, uint64_t *random)
{
	size_t count = 0, taken = 0;

	while (taken < bytes && count < CHUNKS_MAX) {
		size_t size = size_of(random);

		chunk[count] = malloc(size);
		if (!chunk[count])
			err(1, "malloc of %zu bytes", size);
		memset(chunk[count++], 1, size);
		taken += size;
	}
	pthread_barrier_wait(&barrier); /* All have what they need: the main thread looks. */
	pthread_barrier_wait(&barrier);
	for (size_t last = count; last > 0; last--) { /* In any order. */
		size_t which = next(random) % last;

		free(chunk[which]);
		chunk[which] = chunk[last - 1];
	}
	pthread_barrier_wait(&barrier);
}

static void *serve(void *number)
{
	uint64_t random = 20261124 + (uintptr_t)number;
	void **chunk = calloc(CHUNKS_MAX, sizeof(*chunk));

	if (!chunk)
		err(1, "calloc");
	for (int i = 0; i < WAVES; i++)
		wave(chunk, &random);
	free(chunk);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier); /* Waits while the process is idle. */
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS_MAX];
	long threads = argc == 3 ? strtol(argv[1], NULL, 10) : 0;
	unsigned long in_use = 0;

	bytes = argc == 3 ? strtoul(argv[2], NULL, 10) << 20 : 0;
	if (threads < 1 || threads > THREADS_MAX || !bytes)
		errx(2, "usage: idle THREADS MIB");
	pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1);
	for (long i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, serve, (void *)i))
			errx(1, "cannot start a thread");
	for (int i = 0; i < WAVES; i++) {
		pthread_barrier_wait(&barrier);
		in_use = resident();
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
	}
	pthread_barrier_wait(&barrier);
	sleep(1);
	unsigned long after_1 = resident();

	sleep(9);
	printf("in_use_kib: %lu\nidle_1s_kib: %lu\nidle_10s_kib: %lu\n", in_use, after_1, resident());
	pthread_barrier_wait(&barrier);
	for (long i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
