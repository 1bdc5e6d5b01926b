// SPDX-License-Identifier: MIT
#pragma once
#include <stddef.h>
#include <asm/mman.h>
#include <linux/memfd.h>
#include <linux/mman.h>
#define MAP_ANON MAP_ANONYMOUS
#define MAP_FAILED ((void *)-1)
void *mmap(void *at, size_t size, int rights, int flags, int file, long offset);
int munmap(void *at, size_t size);
void *mremap(void *at, size_t size, size_t becomes, int flags, ...);
int mprotect(void *at, size_t size, int rights);
int madvise(void *at, size_t size, int advice);
int msync(void *at, size_t size, int flags);
int mlock(const void *at, size_t size);
int munlock(const void *at, size_t size);
int mlockall(int flags);
int munlockall(void);
int memfd_create(const char *name, unsigned flags);
