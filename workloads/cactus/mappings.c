// SPDX-License-Identifier: MIT
/*
 * Maps pieces of 4632 KiB, touches them and unmaps them, again and again, as cactusBSSN (SPEC CPU2017) does.
 *
 * A piece is two hugepages and a tail of 536 KiB. Linux 6.7 aligned each to 2 MiB, so that they lay apart: up to 600 %
 * slower, until it was taken back for lengths that are no multiples. Who aligns must leave such pieces alone.
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, HUGE = 2 << 20, PIECE = 4632 << 10, PIECES_MAX = 64 };

static uint64_t number(int argc, char **argv, int place, const char *name, uint64_t max)
{
	char *end;
	uint64_t value;

	if (argc != 7 || strcmp(argv[place], name))
		errx(2, "expected --pieces N --rounds N --seed N");
	errno = 0;
	value = strtoull(argv[place + 1], &end, 10);
	if (errno || end == argv[place + 1] || *end || *argv[place + 1] == '-' || !value || value > max)
		errx(2, "%s: got '%s', expected a whole number from 1 to %" PRIu64, name, argv[place + 1], max);
	return value;
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* Touches every page of a piece, first by a write: a read would get zeros, and a second fault with the write. */
static void fill(char *piece, uint64_t seed)
{
	for (uint64_t at = 0; at < PIECE; at += PAGE)
		*(uint64_t *)(piece + at) = mix(seed + at);
}

static uint64_t sum(const char *piece, uint64_t seed)
{
	uint64_t total = 0;

	for (uint64_t at = 0; at < PIECE; at += PAGE) {
		uint64_t word = *(const uint64_t *)(piece + at);

		if (word != mix(seed + at))
			errx(1, "a page has %016" PRIx64 ", expected %016" PRIx64, word, mix(seed + at));
		total = mix(total ^ word);
	}
	return total;
}

/*
 * Has each round begin elsewhere within a hugepage, by a mapping that stays: else it is drawn once, for all rounds, how
 * many hugepages the pieces cover.
 */
static void shift(uint64_t rounds)
{
	if (mmap(NULL, HUGE / rounds + 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
		err(1, "mmap");
}

int main(int argc, char **argv)
{
	uint64_t pieces = number(argc, argv, 1, "--pieces", PIECES_MAX);
	uint64_t rounds = number(argc, argv, 3, "--rounds", UINT32_MAX);
	uint64_t seed = number(argc, argv, 5, "--seed", UINT64_MAX), answer = 0;
	char *piece[PIECES_MAX];

	for (uint64_t i = 0; i < rounds; i++) {
		shift(rounds);
		for (uint64_t p = 0; p < pieces; p++) {
			piece[p] = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (piece[p] == MAP_FAILED)
				err(1, "mmap");
			fill(piece[p], mix(seed + i * pieces + p));
		}
		for (uint64_t p = 0; p < pieces; p++) {
			answer = mix(answer ^ sum(piece[p], mix(seed + i * pieces + p)));
			if (munmap(piece[p], PIECE))
				err(1, "munmap");
		}
	}
	printf("mappings: %" PRIu64 "\nanswer: %016" PRIx64 "\n", pieces * rounds, answer);
	return 0;
}
