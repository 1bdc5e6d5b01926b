// SPDX-License-Identifier: MIT
#pragma once
#include <stddef.h>
void exit(int status) __attribute__((noreturn));
// Each piece is a mapping of its own, as a large one is everywhere.
void *malloc(size_t size);
void free(void *piece);
// Of base 10, whatever is asked for.
unsigned long long strtoull(const char *text, char **end, int base);
