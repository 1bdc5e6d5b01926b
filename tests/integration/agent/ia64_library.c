// SPDX-License-Identifier: MIT
/* Tries what the Itanium machine's library has of memory and of text: says what does not hold, or that all does. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES = 200, ROUNDS = 20000, SMALL = 5000, LARGE = 300000, BYTES = 48 };

#define MUST(holds) ((holds) ? (void)0 : fail(#holds, __LINE__))

static void fail(const char *what, int line)
{
	printf("line %d: %s\n", line, what);
	exit(1);
}

/* SplitMix64's steps. */
static uint64_t drawn(uint64_t limit)
{
	static uint64_t state = 1;
	uint64_t x = state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return (x ^ x >> 31) % limit;
}

static int all_are(const unsigned char *piece, size_t size, int value)
{
	for (size_t i = 0; i < size; i++)
		if (piece[i] != value)
			return 0;
	return 1;
}

/* Each piece is full of its own number: one that overlaps another, or that is not kept, shows. */
static void try_pieces(void)
{
	static unsigned char *pieces[PIECES];
	static size_t sizes[PIECES];

	for (int round = 0; round < ROUNDS; round++) {
		int n = (int)drawn(PIECES);
		size_t size = drawn(drawn(50) ? SMALL : LARGE);

		if (drawn(3) == 0) {
			MUST(all_are(pieces[n], sizes[n], n));
			free(pieces[n]);
			pieces[n] = NULL;
			size = 0;
		} else {
			pieces[n] = realloc(pieces[n], size);
			MUST(pieces[n] && (uintptr_t)pieces[n] % 16 == 0);
			MUST(all_are(pieces[n], size < sizes[n] ? size : sizes[n], n));
			memset(pieces[n], n, size);
		}
		sizes[n] = size;
	}
	for (int n = 0; n < PIECES; n++)
		MUST(all_are(pieces[n], sizes[n], n));
}

/* A heap does not grow by what is taken and given back. */
static void try_reuse(void)
{
	char *first = malloc(100), *last;

	free(first);
	for (int round = 0; round < 1000; round++)
		free(last = malloc(97));
	MUST(last == first);
	MUST(!malloc(SIZE_MAX) && !malloc(SIZE_MAX - 20));
}

/* Copies at every distance and boundary, beside one byte by byte. */
static void try_bytes(void)
{
	unsigned char from[BYTES], expected[BYTES], got[BYTES];

	for (size_t at = 0; at < 16; at++)
		for (size_t to = 0; to < 16; to++)
			for (size_t size = 0; size <= BYTES - 16; size++) {
				for (int i = 0; i < BYTES; i++)
					from[i] = expected[i] = got[i] = (unsigned char)(i + 1);
				for (size_t i = 0; i < size; i++)
					expected[to + i] = from[at + i];
				memmove(got + to, got + at, size);
				MUST(!memcmp(got, expected, BYTES));
				memset(got, 0xab, BYTES);
				memcpy(got + to, from + at, size);
				MUST(!memcmp(got + to, from + at, size));
				MUST(all_are(got, to, 0xab) && all_are(got + to + size, BYTES - to - size, 0xab));
				memset(got + to, 7, size);
				MUST(all_are(got, to, 0xab) && all_are(got + to, size, 7));
				MUST(all_are(got + to + size, BYTES - to - size, 0xab));
			}
	MUST(memcmp("a\200", "a\1", 2) > 0 && memcmp("ab", "ac", 2) < 0 && memcmp("ab", "ac", 1) == 0);
}

static void try_text(void)
{
	char text[8] = "-------";
	const char *path = "a/b/c";

	MUST(strrchr(path, '/') == path + 3 && !strrchr(path, 'x') && strrchr(path, 0) == path + 5);
	MUST(memchr(path, 'b', 3) == path + 2 && !memchr(path, 'b', 2));
	MUST(strspn("aabc", "ab") == 3 && strspn("", "a") == 0 && strcspn("aabc", "cx") == 3 && strcspn("ab", "") == 2);
	MUST(snprintf(text, 4, "%03d", 12345) == 5 && !strcmp(text, "123") && text[4] == '-');
	MUST(snprintf(text, 0, "abc") == 3 && !strcmp(text, "123"));
	MUST(snprintf(text, 8, "%s%c", "ab", 'c') == 3 && !strcmp(text, "abc"));
}

int main(void)
{
	try_pieces();
	try_reuse();
	try_bytes();
	try_text();
	printf("all is well\n");
	return 0;
}
