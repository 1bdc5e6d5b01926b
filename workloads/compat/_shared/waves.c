// SPDX-License-Identifier: MIT
/*
 * A server's day: waves of load in many threads, which come and go, some growth, and time with nothing to do.
 *
 * In a wave every thread allocates its share in blocks, and gives some to the next thread to be freed there. When all
 * threads have all of it, they check what they wrote, and free what is theirs in another order than they took it, and what
 * they were given: so what is in use at once is the same however the threads are scheduled, and what is there for it is
 * the malloc's doing. In odd waves blocks are small; in even ones some are larger than what a malloc maps by itself. Of
 * each wave a few blocks are kept, and those of the wave before the last are freed: so memory in use is the same after
 * each wave, and what the process has must be, too.
 */
#include <err.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MOST = 256, KEPT_ONE_IN = 50, GIVEN_ONE_IN = 8, GENERATIONS = 2 };

struct block {
	struct block *next;
	uint64_t size, seed;
	unsigned char bytes[];
};

/* Blocks that the thread before has given to this one to free, which looks when all have given. */
static struct block *given[THREADS_MOST];

static struct block *kept[THREADS_MOST][GENERATIONS];
static pthread_barrier_t all_taken;
static uint64_t threads, wave, share_bytes, seed, sums[THREADS_MOST];

/* The finaliser of SplitMix64: one to one. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* Small blocks of 32 to 543 bytes; in even waves, one in sixteen is of 4 KiB to 1.25 MiB. */
static uint64_t size_of(uint64_t bits)
{
	if (wave % 2 == 0 && bits % 16 == 0)
		return 4096 + (bits >> 8) % (1276 * 1024);
	return 32 + (bits >> 8) % 512;
}

static void fill(struct block *block)
{
	memset(block->bytes, (int)(block->seed & 0xff), block->size);
	memcpy(block->bytes, &block->seed, sizeof(block->seed));
}

/* Reads a block's first and last bytes, which are as they were written, and frees it. */
static uint64_t check_and_free(struct block *block)
{
	uint64_t found;

	memcpy(&found, block->bytes, sizeof(found));
	if (found != block->seed || block->bytes[block->size - 1] != (block->seed & 0xff))
		errx(1, "a block is not what was written to it");
	free(block);
	return found;
}

static uint64_t free_all(struct block *block)
{
	uint64_t sum = 0;

	for (struct block *next; block; block = next) {
		next = block->next;
		sum += check_and_free(block);
	}
	return sum;
}

static struct block *take(uint64_t thread, uint64_t number)
{
	uint64_t bits = mix(mix(seed + wave * THREADS_MOST + thread) + number * 0x9e3779b97f4a7c15);
	uint64_t size = size_of(bits);
	struct block *block = malloc(sizeof(*block) + size);

	if (!block)
		err(1, "malloc");
	block->size = size;
	block->seed = bits;
	fill(block);
	return block;
}

static void *work(void *argument)
{
	uint64_t thread = (uintptr_t)argument, number = 0;
	struct block *own[2] = { NULL, NULL }, *gift = NULL, **generation = &kept[thread][wave % GENERATIONS];

	sums[thread] += free_all(*generation);
	*generation = NULL;
	for (uint64_t taken = 0; taken < share_bytes; number++) {
		struct block *block = take(thread, number);

		taken += block->size;
		if (number % KEPT_ONE_IN == 0 && block->size < 4096) {
			block->next = *generation;
			*generation = block;
		} else if (number % GIVEN_ONE_IN == 0) {
			block->next = gift;
			gift = block;
		} else {
			block->next = own[number % 2];
			own[number % 2] = block;
		}
	}
	given[(thread + 1) % threads] = gift;
	pthread_barrier_wait(&all_taken);
	sums[thread] += free_all(own[0]) + free_all(own[1]) + free_all(given[thread]);
	return NULL;
}

static long rss_kib(void)
{
	long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file || fscanf(file, "%*d %ld", &pages) != 1)
		err(1, "/proc/self/statm");
	fclose(file);
	return pages * 4;
}

/* A wave with threads of its own. */
static void run_wave(void)
{
	struct timespec pause = { .tv_nsec = 200 * 1000 * 1000 };
	pthread_t ids[THREADS_MOST];

	for (uintptr_t i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, work, (void *)i))
			errx(1, "a thread cannot be started");
	for (uint64_t i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	nanosleep(&pause, NULL);
}

int main(int argc, char **argv)
{
	uint64_t waves, sum = 0;
	long early = 0, late;

	if (argc != 9 || strcmp(argv[1], "--threads") || strcmp(argv[3], "--waves") || strcmp(argv[5], "--mib") ||
	    strcmp(argv[7], "--seed"))
		errx(2, "usage: %s --threads N --waves N --mib N --seed N", argv[0]);
	threads = strtoull(argv[2], NULL, 10);
	waves = strtoull(argv[4], NULL, 10);
	if (!threads || threads > THREADS_MOST || waves < 6)
		errx(2, "1 to %d threads, 6 waves or more", THREADS_MOST);
	share_bytes = (strtoull(argv[6], NULL, 10) << 20) / threads;
	seed = strtoull(argv[8], NULL, 10);
	if (pthread_barrier_init(&all_taken, NULL, threads))
		errx(1, "the threads have nothing to wait at");
	for (wave = 1; wave <= waves; wave++) {
		run_wave();
		printf("rss_after_wave_%" PRIu64 "_kib: %ld\n", wave, rss_kib());
		/* Both of even waves, and the first after all has been used once. */
		if (wave == 4)
			early = rss_kib();
	}
	late = rss_kib();
	for (uint64_t i = 0; i < threads; i++)
		sum += sums[i] * (i + 1);
	printf("creep_kib: %ld\nanswer: %016" PRIx64 "\n", late > early ? late - early : 0, sum);
	fflush(stdout);
	for (;;)
		pause();
}
