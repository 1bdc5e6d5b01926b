// SPDX-License-Identifier: MIT
// As much of a C library as GCC's own tests of execution ask for. What they print, nobody reads.
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

enum { ABORTED = 134, HEAP = 16 << 20 };

void reset(long kind, long status);

void exit(int status)
{
	reset(0, status);
	for (;;)
		;
}

void _exit(int status)
{
	exit(status);
}

void abort(void)
{
	exit(ABORTED);
}

void *memcpy(void *to, const void *from, size_t size)
{
	char *a = to;
	const char *b = from;

	while (size--)
		*a++ = *b++;
	return to;
}

void *mempcpy(void *to, const void *from, size_t size)
{
	return (char *)memcpy(to, from, size) + size;
}

void *memmove(void *to, const void *from, size_t size)
{
	char *a = to;
	const char *b = from;

	if (a < b)
		return memcpy(to, from, size);
	while (size--)
		a[size] = b[size];
	return to;
}

void *memset(void *to, int value, size_t size)
{
	char *a = to;

	while (size--)
		*a++ = value;
	return to;
}

int memcmp(const void *one, const void *other, size_t size)
{
	const unsigned char *a = one, *b = other;

	for (; size--; a++, b++) {
		if (*a != *b)
			return *a - *b;
	}
	return 0;
}

void *memchr(const void *in, int value, size_t size)
{
	const unsigned char *a = in;

	for (; size--; a++) {
		if (*a == (unsigned char)value)
			return (void *)a;
	}
	return 0;
}

size_t strlen(const char *text)
{
	size_t n = 0;

	while (text[n])
		n++;
	return n;
}

char *strcpy(char *to, const char *from)
{
	memcpy(to, from, strlen(from) + 1);
	return to;
}

char *stpcpy(char *to, const char *from)
{
	return strcpy(to, from) + strlen(from);
}

char *strncpy(char *to, const char *from, size_t size)
{
	size_t n = strlen(from);

	if (n >= size)
		return memcpy(to, from, size);
	memcpy(to, from, n);
	memset(to + n, 0, size - n);
	return to;
}

char *strcat(char *to, const char *from)
{
	strcpy(to + strlen(to), from);
	return to;
}

int strncmp(const char *one, const char *other, size_t size)
{
	for (; size; size--, one++, other++) {
		if (*one != *other || !*one)
			return (unsigned char)*one - (unsigned char)*other;
	}
	return 0;
}

int strcmp(const char *one, const char *other)
{
	return strncmp(one, other, -1UL);
}

char *strchr(const char *in, int value)
{
	return memchr(in, value, strlen(in) + 1);
}

char *strrchr(const char *in, int value)
{
	const char *found = 0;

	do {
		if (*in == (char)value)
			found = in;
	} while (*in++);
	return (char *)found;
}

static char heap[HEAP] __attribute__((aligned(16)));
static size_t taken;

void *malloc(size_t size)
{
	char *found = heap + taken;

	taken += (size + 31) & ~15UL;
	return taken > sizeof(heap) ? 0 : found;
}

void *calloc(size_t count, size_t size)
{
	return malloc(count * size); // memory is zeros, and none comes back
}

void *realloc(void *old, size_t size)
{
	char *fresh = malloc(size);

	return old && fresh ? memcpy(fresh, old, size) : fresh;
}

void free(void *old)
{
	(void)old;
}

int printf(const char *format, ...)
{
	return strlen(format);
}

int puts(const char *text)
{
	return strlen(text);
}

int putchar(int character)
{
	return character;
}

int abs(int number)
{
	return number < 0 ? -number : number;
}

long labs(long number)
{
	return number < 0 ? -number : number;
}

long long llabs(long long number)
{
	return labs(number);
}
