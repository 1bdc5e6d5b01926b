// SPDX-License-Identifier: MIT
#pragma once
#include <signal.h>
#include <syscall.h>
enum { _SC_PAGESIZE = 30 };
#define _SC_PAGE_SIZE _SC_PAGESIZE
int close(int file);
ssize_t read(int file, void *to, size_t size);
ssize_t write(int file, const void *from, size_t size);
ssize_t pread(int file, void *to, size_t size, off_t at);
int ftruncate(int file, off_t size);
int unlink(const char *path);
int pipe(int ends[2]);
pid_t fork(void);
pid_t getpid(void);
pid_t getppid(void);
unsigned sleep(unsigned seconds);
int getpagesize(void);
long sysconf(int what);
void _exit(int status) __attribute__((noreturn));
extern char *optarg;
extern int optind;
int getopt(int count, char *const *words, const char *options);
