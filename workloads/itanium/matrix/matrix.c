// SPDX-License-Identifier: MIT
/*
 * Transposes a square matrix into another, again and again: rows of one are columns of the other, so that each access of
 * a column lies in another page, and a TLB that has fewer entries than the matrix has rows misses at each.
 */
#include <err.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ROWS_MAX = 1 << 14 };

static uint64_t number(int argc, char **argv, int at, const char *name, uint64_t max)
{
	char *end = "?";
	uint64_t value = at + 1 < argc && !strcmp(argv[at], name) ? strtoull(argv[at + 1], &end, 10) : 0;

	if (*end || !value || value > max)
		errx(2, "expected --rows N --rounds N --seed N, %s from 1 to %" PRIu64, name, max);
	return value;
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* Anonymous, as the kernel gives it: its page size is what is compared. */
static uint64_t *map(uint64_t rows)
{
	void *all = mmap(NULL, rows * rows * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (all == MAP_FAILED)
		err(1, "mmap of a matrix of %" PRIu64 " rows", rows);
	return all;
}

static void transpose(const uint64_t *from, uint64_t *to, uint64_t rows)
{
	for (uint64_t row = 0; row < rows; row++)
		for (uint64_t column = 0; column < rows; column++)
			to[column * rows + row] = from[row * rows + column] + 1;
}

/* A round moves each element to the mirrored place and adds 1: what is there after all rounds is known without them. */
static uint64_t check(const uint64_t *all, uint64_t rows, uint64_t rounds, uint64_t seed)
{
	uint64_t sum = 0;

	for (uint64_t row = 0; row < rows; row++) {
		for (uint64_t column = 0; column < rows; column++) {
			uint64_t at = rounds % 2 ? column * rows + row : row * rows + column;
			uint64_t got = all[row * rows + column], expected = mix(seed + at) + rounds;

			if (got != expected)
				errx(1, "row %" PRIu64 ", column %" PRIu64 ": got %016" PRIx64 ", expected %016" PRIx64,
				     row, column, got, expected);
			sum = mix(sum ^ got);
		}
	}
	return sum;
}

int main(int argc, char **argv)
{
	uint64_t rows = number(argc, argv, 1, "--rows", ROWS_MAX), rounds = number(argc, argv, 3, "--rounds", UINT32_MAX);
	uint64_t seed = number(argc, argv, 5, "--seed", UINT64_MAX), *from = map(rows), *to = map(rows);

	for (uint64_t at = 0; at < rows * rows; at++)
		from[at] = mix(seed + at);
	for (uint64_t round = 0; round < rounds; round++) {
		uint64_t *other = from;

		transpose(from, to, rows);
		from = to;
		to = other;
	}
	printf("elements: %" PRIu64 "\nanswer: %016" PRIx64 "\n", rows * rows * rounds, check(from, rows, rounds, seed));
	return 0;
}
