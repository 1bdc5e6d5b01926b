// SPDX-License-Identifier: MIT
#pragma once
#include <stddef.h>
enum { PROT_NONE = 0, PROT_READ = 1, PROT_WRITE = 2, MAP_PRIVATE = 2, MAP_ANONYMOUS = 0x20 };
#define MAP_FAILED ((void *)-1)
void *mmap(void *at, size_t size, int rights, int flags, int file, long offset);
int munmap(void *at, size_t size);
