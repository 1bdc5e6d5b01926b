// SPDX-License-Identifier: MIT
/*
 * As much of a C library as the agent of the Itanium machine and the bench's workloads of C alone ask for: the last one
 * of Debian's for this architecture would have to be built, too.
 */
#include <err.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "calls.h"

enum { STANDARD_OUTPUT = 1 };

int errno;

/* A call's result as a library gives it. */
static long result(long got)
{
	if (got >= 0 || got < -4095)
		return got;
	errno = (int)-got;
	return -1;
}

void exit(int status)
{
	for (;;)
		call(status, 0, 0, 0, 0, 0, CALL_EXIT);
}

void *mmap(void *at, size_t size, int rights, int flags, int file, long offset)
{
	return (void *)result(call((long)at, (long)size, rights, flags, file, offset, CALL_MMAP));
}

int munmap(void *at, size_t size)
{
	return (int)result(call((long)at, (long)size, 0, 0, 0, 0, CALL_MUNMAP));
}

/* --- pieces of memory --------------------------------------------------------------------------------------------- */

/* Sizes of pieces are rounded up to one of so many, so that what is given back serves the next of its size. */
enum { SIZES = 64, GRAIN = 16, LARGE = 128 << 10, GROWTH = 128 << 10 };

/* Before each piece. A large one is a mapping, and has no number. */
struct piece {
	size_t size;
	long number;
	union {
		struct piece *next; /* that is free, too */
		char memory[GRAIN];
	};
};

enum { HEAD = sizeof(size_t) + sizeof(long) };

static struct piece *free_pieces[SIZES];

static struct piece *piece_of(void *memory)
{
	return (struct piece *)((char *)memory - HEAD);
}

/* The number of the smallest size that fits, and that size: eight of 16 to 128 bytes, then four to each doubling. */
static long number_of(size_t *size)
{
	size_t fits = GRAIN, step = GRAIN;
	long number = 0;

	while (fits < *size) {
		fits += step;
		if (++number % 4 == 3 && number > 3)
			step *= 2;
	}
	*size = fits;
	return number;
}

/* New memory, from the end of the heap; NULL if there is none. */
static void *grow(size_t size)
{
	static char *at, *end;

	if (!end) {
		end = (char *)call(0, 0, 0, 0, 0, 0, CALL_BRK);
		at = end + (-(uintptr_t)end & (GRAIN - 1));
	}
	if (at + size > end) {
		char *wanted = at + size + GROWTH;

		if ((char *)call((long)wanted, 0, 0, 0, 0, 0, CALL_BRK) != wanted)
			return NULL;
		end = wanted;
	}
	at += size;
	return at - size;
}

void *malloc(size_t size)
{
	struct piece *piece = MAP_FAILED;
	long number = -1;

	if (size < LARGE) {
		number = number_of(&size);
		piece = free_pieces[number];
		if (piece)
			free_pieces[number] = piece->next;
		else
			piece = grow(HEAD + size);
	} else if (size <= SIZE_MAX - HEAD) {
		piece = mmap(NULL, HEAD + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	if (!piece || piece == MAP_FAILED)
		return NULL;
	piece->size = size;
	piece->number = number;
	return piece->memory;
}

void free(void *memory)
{
	struct piece *piece;

	if (!memory)
		return;
	piece = piece_of(memory);
	if (piece->number < 0) {
		munmap(piece, HEAD + piece->size);
		return;
	}
	piece->next = free_pieces[piece->number];
	free_pieces[piece->number] = piece;
}

void *realloc(void *memory, size_t size)
{
	void *other;

	if (memory && size <= piece_of(memory)->size)
		return memory;
	other = malloc(size);
	if (memory && other) {
		memcpy(other, memory, piece_of(memory)->size);
		free(memory);
	}
	return other;
}

/* --- text and bytes ----------------------------------------------------------------------------------------------- */

/* Memory as words, whatever it is to others. */
typedef long __attribute__((may_alias)) word;
enum { WORD = sizeof(word) };

/* A word at a time where both are at its boundary: most of what is copied is, and the processor has no other way. */
void *memcpy(void *to, const void *from, size_t size)
{
	char *a = to;
	const char *b = from;

	if (!(((uintptr_t)a | (uintptr_t)b) % WORD))
		for (; size >= WORD; size -= WORD, a += WORD, b += WORD)
			*(word *)a = *(const word *)b;
	while (size--)
		*a++ = *b++;
	return to;
}

void *memmove(void *to, const void *from, size_t size)
{
	char *a = to;
	const char *b = from;

	if (a <= b || a >= b + size)
		return memcpy(to, from, size);
	while (size--)
		a[size] = b[size];
	return to;
}

void *memset(void *to, int value, size_t size)
{
	const unsigned long all = (unsigned char)value * (~0UL / 255);
	char *a = to;

	for (; size && (uintptr_t)a % WORD; size--)
		*a++ = (char)value;
	for (; size >= WORD; size -= WORD, a += WORD)
		*(word *)a = (long)all;
	while (size--)
		*a++ = (char)value;
	return to;
}

void *memchr(const void *in, int value, size_t size)
{
	for (const unsigned char *at = in; size; size--, at++)
		if (*at == (unsigned char)value)
			return (void *)at;
	return NULL;
}

int memcmp(const void *one, const void *other, size_t size)
{
	const unsigned char *a = one, *b = other;

	for (; size; size--, a++, b++)
		if (*a != *b)
			return *a - *b;
	return 0;
}

size_t strlen(const char *text)
{
	size_t n = 0;

	while (text[n])
		n++;
	return n;
}

int strncmp(const char *one, const char *other, size_t size)
{
	for (; size; size--, one++, other++)
		if (*one != *other || !*one)
			return (unsigned char)*one - (unsigned char)*other;
	return 0;
}

int strcmp(const char *one, const char *other)
{
	return strncmp(one, other, SIZE_MAX);
}

char *strchr(const char *in, int value)
{
	for (;; in++) {
		if (*in == (char)value)
			return (char *)in;
		if (!*in)
			return NULL;
	}
}

char *strrchr(const char *in, int value)
{
	const char *last = NULL;

	do
		if (*in == (char)value)
			last = in;
	while (*in++);
	return (char *)last;
}

/* How much of the text is of these, or of no other: until the first that is not. */
static size_t span(const char *text, const char *of, int is)
{
	size_t n = 0;

	while (text[n] && (strchr(of, text[n]) != NULL) == is)
		n++;
	return n;
}

size_t strspn(const char *text, const char *of)
{
	return span(text, of, 1);
}

size_t strcspn(const char *text, const char *until)
{
	return span(text, until, 0);
}

unsigned long long strtoull(const char *text, char **end, int base)
{
	const char *at = text;
	unsigned long long value = 0;
	int over = 0;

	(void)base;
	for (; *at >= '0' && *at <= '9'; at++) {
		over |= __builtin_mul_overflow(value, 10, &value);
		over |= __builtin_add_overflow(value, (unsigned)(*at - '0'), &value);
	}
	if (over)
		errno = ERANGE;
	if (end)
		*end = (char *)at;
	return over ? ~0ULL : value;
}

/* --- what is said ----------------------------------------------------------------------------------------------- */

/* Where what is said goes in place of the standard output, and what it has come to; NULL: to that. */
static struct buffer {
	char *at;
	size_t left, whole;
} *buffer;

static void put_into(struct buffer *into, const char *text, size_t size)
{
	size_t fits = size < into->left ? size : into->left;

	memcpy(into->at, text, fits);
	into->at += fits;
	into->left -= fits;
	into->whole += size;
}

static void put(const char *text, size_t size)
{
	if (buffer) {
		put_into(buffer, text, size);
		return;
	}
	while (size) {
		long done = call(STANDARD_OUTPUT, (long)text, (long)size, 0, 0, 0, CALL_WRITE);

		if (done <= 0)
			return;
		text += done;
		size -= (size_t)done;
	}
}

static void put_number(unsigned long value, int negative, unsigned base, char fill, int width)
{
	char text[64];
	size_t at = sizeof(text);

	do {
		text[--at] = "0123456789abcdef"[value % base];
	} while (value /= base);
	if (negative)
		text[--at] = '-';
	while (at && sizeof(text) - at < (size_t)width)
		text[--at] = fill;
	put(text + at, sizeof(text) - at);
}

/* One conversion, behind its %; where it ends. The arguments are behind a pointer, as a list cannot be handed on else.
 */
static const char *convert(const char *at, va_list *args)
{
	char fill = *at == '0' ? '0' : ' ';
	int width = 0, is_long = 0;

	for (; *at >= '0' && *at <= '9'; at++)
		width = 10 * width + *at - '0';
	for (; *at == 'l'; at++)
		is_long = 1;
	if (*at == 'd') {
		long value = is_long ? va_arg(*args, long) : va_arg(*args, int);

		put_number(value < 0 ? -(unsigned long)value : (unsigned long)value, value < 0, 10, fill, width);
	} else if (*at == 'u' || *at == 'x') {
		unsigned long value = is_long ? va_arg(*args, unsigned long) : va_arg(*args, unsigned);

		put_number(value, 0, *at == 'u' ? 10 : 16, fill, width);
	} else if (*at == 's') {
		const char *text = va_arg(*args, const char *);

		put(text, strlen(text));
	} else if (*at == 'c') {
		putchar(va_arg(*args, int));
	} else {
		put(at, 1);
	}
	return at + 1;
}

int vprintf(const char *format, va_list args)
{
	va_list left;

	va_copy(left, args);
	while (*format) {
		size_t plain = 0;

		while (format[plain] && format[plain] != '%')
			plain++;
		put(format, plain);
		format += plain;
		if (*format == '%' && format[1])
			format = convert(format + 1, &left);
		else if (*format)
			put(format++, 1);
	}
	va_end(left);
	return 0;
}

int printf(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	return 0;
}

int snprintf(char *text, size_t size, const char *format, ...)
{
	struct buffer into = { text, size ? size - 1 : 0, 0 };
	va_list args;

	buffer = &into;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	buffer = NULL;
	if (size)
		*into.at = '\0';
	return (int)into.whole;
}

int putchar(int character)
{
	char one = (char)character;

	put(&one, 1);
	return character;
}

int puts(const char *text)
{
	return printf("%s\n", text);
}

void err(int status, const char *format, ...)
{
	int number = errno;
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf(": error %d\n", number);
	exit(status);
}

void errx(int status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	exit(status);
}
