// SPDX-License-Identifier: MIT
#pragma once
#include <stddef.h>
void exit(int status) __attribute__((noreturn));
// A piece of 128 KiB or more is a mapping of its own; smaller ones are of a heap that grows.
void *malloc(size_t size);
void *realloc(void *piece, size_t size);
void free(void *piece);
// Of base 10, whatever is asked for.
unsigned long long strtoull(const char *text, char **end, int base);
