// SPDX-License-Identifier: MIT
/*
 * Walks several malloc'ed chunks of whole 2 MB multiples in lock-step (paper section 6.2, 459.GemsFDTD).
 *
 * An allocator or kernel that aligns every chunk to 2 MB puts equal elements into equal sets of every cache
 * level; one that packs chunks, or moves each by a random offset, does not. This program asks for nothing
 * but malloc, or mmap where --map is 1, and counts what it got.
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE = 2 << 20, LINE = 64, CHUNKS_MAX = 256, PER_LINE = LINE / sizeof(uint64_t) };

struct parameter {
	const char *name;
	uint64_t max, value;
	int given;
};

#define EXPECTED "expected --chunks N --chunk-kib N --map 0|1 --sweeps N --seed N"

static void parse(struct parameter *table, size_t size, int argc, char **argv)
{
	for (int i = 1; i < argc; i += 2) {
		struct parameter *p = table;
		char *end;

		while (p < table + size && strcmp(p->name, argv[i]))
			p++;
		if (p == table + size)
			errx(2, "unknown option '%s'; " EXPECTED, argv[i]);
		errno = 0;
		p->value = argv[i + 1] ? strtoull(argv[i + 1], &end, 10) : 0;
		if (!argv[i + 1] || errno || end == argv[i + 1] || *end || *argv[i + 1] == '-' || p->value > p->max)
			errx(2, "%s: got '%s', expected a whole number up to %" PRIu64, p->name,
			     argv[i + 1] ? argv[i + 1] : "nothing", p->max);
		p->given = 1;
	}
	for (struct parameter *p = table; p < table + size; p++)
		if (!p->given)
			errx(2, "%s is missing; " EXPECTED, p->name);
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* How many chunks start on the same cache line modulo 2 MB, in the largest such group. */
static int count_congruent(uint64_t **chunk, int chunks)
{
	int most = 0;

	for (int i = 0; i < chunks; i++) {
		int same = 0;

		for (int j = 0; j < chunks; j++)
			same += (uintptr_t)chunk[i] % HUGE / LINE == (uintptr_t)chunk[j] % HUGE / LINE;
		if (same > most)
			most = same;
	}
	return most;
}

/* First touch in lock-step too, as a field solver initialises its arrays. */
static void fill(uint64_t **chunk, int chunks, uint64_t elements, uint64_t seed)
{
	for (uint64_t i = 0; i < elements; i++)
		for (int c = 0; c < chunks; c++)
			chunk[c][i] = seed + i * chunks + c;
}

/*
 * Adds to each element of a chunk the one of the chunk before: like a field update, it reads and writes at the
 * same index everywhere, and comes back to a line for each of its elements. Where the chunks' lines share a set
 * with fewer ways than there are chunks, each time the line is gone.
 */
static void sweep(uint64_t **chunk, int chunks, uint64_t elements)
{
	for (uint64_t i = 0; i < elements; i++)
		for (int c = 1; c < chunks; c++)
			chunk[c][i] += chunk[c - 1][i];
}

/* Weighs every element by its chunk and its place, so that one in the wrong place shows. */
static uint64_t checksum(uint64_t **chunk, int chunks, uint64_t elements)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < elements; i += PER_LINE)
		for (int c = 0; c < chunks; c++)
			sum += chunk[c][i] * mix(c + 1) * mix(~i);
	return sum;
}

/*
 * The same sum without the chunks. A sweep is linear and treats all places alike, so it may as well act on
 * one vector: for each chunk, the weighted total that fill() gave it.
 */
static uint64_t predict(int chunks, uint64_t elements, uint64_t sweeps, uint64_t seed)
{
	uint64_t column[CHUNKS_MAX], weight = 0, moment = 0, sum = 0;

	for (uint64_t i = 0; i < elements; i += PER_LINE) {
		weight += mix(~i);
		moment += mix(~i) * i;
	}
	for (int c = 0; c < chunks; c++)
		column[c] = weight * (seed + c) + moment * chunks;
	while (sweeps--)
		for (int c = 1; c < chunks; c++)
			column[c] += column[c - 1];
	for (int c = 0; c < chunks; c++)
		sum += column[c] * mix(c + 1);
	return sum;
}

/* Mapped chunks need not be multiples: of those the kernel has nothing to extend, nor to move. */
static uint64_t *get(uint64_t bytes, int map)
{
	void *chunk = map ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) :
			    malloc(bytes);

	if (!chunk || chunk == MAP_FAILED)
		err(1, "%s of %" PRIu64 " KiB", map ? "mmap" : "malloc", bytes >> 10);
	return chunk;
}

static void put(uint64_t *chunk, uint64_t bytes, int map)
{
	if (!map)
		free(chunk);
	else if (munmap(chunk, bytes))
		err(1, "munmap");
}

int main(int argc, char **argv)
{
	struct parameter arguments[] = { { .name = "--chunks", .max = CHUNKS_MAX },
					 { .name = "--chunk-kib", .max = 1 << 20 },
					 { .name = "--map", .max = 1 },
					 { .name = "--sweeps", .max = UINT32_MAX },
					 { .name = "--seed", .max = UINT64_MAX } };
	parse(arguments, 5, argc, argv);

	int chunks = arguments[0].value, map = arguments[2].value;
	uint64_t bytes = arguments[1].value << 10, elements = bytes / sizeof(uint64_t);
	uint64_t *chunk[CHUNKS_MAX], sweeps = arguments[3].value, seed = mix(arguments[4].value);

	if (chunks < 2 || !bytes || (!map && bytes % HUGE))
		errx(2, "got %d chunks of %" PRIu64 " KiB, expected at least 2, malloc'ed of a multiple of 2 MiB",
		     chunks, bytes >> 10);
	for (int c = 0; c < chunks; c++)
		chunk[c] = get(bytes, map);
	fill(chunk, chunks, elements, seed);
	for (uint64_t i = 0; i < sweeps; i++)
		sweep(chunk, chunks, elements);

	uint64_t got = checksum(chunk, chunks, elements);
	uint64_t expected = predict(chunks, elements, sweeps, seed);

	if (got != expected)
		errx(1, "checksum: got %016" PRIx64 ", expected %016" PRIx64, got, expected);
	printf("chunks: %d\ncongruent: %d\nanswer: %016" PRIx64 "\n", chunks, count_congruent(chunk, chunks), got);
	for (int c = 0; c < chunks; c++)
		put(chunk[c], bytes, map);
	return 0;
}
