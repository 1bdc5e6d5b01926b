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

enum { STANDARD_OUTPUT = 1, HEAD = 16 };

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

void *malloc(size_t size)
{
	char *piece = MAP_FAILED;

	if (size <= SIZE_MAX - HEAD)
		piece = mmap(NULL, size + HEAD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (piece == MAP_FAILED)
		return NULL;
	*(size_t *)piece = size + HEAD;
	return piece + HEAD;
}

void free(void *piece)
{
	char *begin = (char *)piece - HEAD;

	if (piece)
		munmap(begin, *(size_t *)begin);
}

void *memcpy(void *to, const void *from, size_t size)
{
	char *a = to;
	const char *b = from;

	while (size--)
		*a++ = *b++;
	return to;
}

void *memset(void *to, int value, size_t size)
{
	char *a = to;

	while (size--)
		*a++ = (char)value;
	return to;
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

static void put(const char *text, size_t size)
{
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
