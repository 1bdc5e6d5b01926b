/* SPDX-License-Identifier: MIT */
/* What the tests of semantics share. */
#ifndef SEMANTICS_H
#define SEMANTICS_H

#include <stddef.h>

#define ASKED (5 * MIB + PAGE) /* the heap that bits.c has in the end */

void *grow(size_t bytes);
char *large_heap(void);
size_t behind(const void *top);
int layout(void);
int member(void);
int holds_memory(void);
int finds(void);
int sparse(void);
int effect(int number);
int booted(const char *policy);

#endif
