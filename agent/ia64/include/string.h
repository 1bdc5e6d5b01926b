// SPDX-License-Identifier: MIT
#pragma once
#include <stddef.h>
void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int value, size_t size);
void *memchr(const void *in, int value, size_t size);
int memcmp(const void *one, const void *other, size_t size);
size_t strlen(const char *text);
int strcmp(const char *one, const char *other);
int strncmp(const char *one, const char *other, size_t size);
char *strchr(const char *in, int value);
char *strrchr(const char *in, int value);
size_t strspn(const char *text, const char *of);
size_t strcspn(const char *text, const char *until);
