// SPDX-License-Identifier: MIT
#include <stddef.h>
void exit(int status) __attribute__((noreturn));
void _exit(int status) __attribute__((noreturn));
void abort(void) __attribute__((noreturn));
void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *old, size_t size);
void free(void *old);
int abs(int number);
long labs(long number);
long long llabs(long long number);
