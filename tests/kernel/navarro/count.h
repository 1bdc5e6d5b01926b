/* SPDX-License-Identifier: MIT */
/*
 * What an experiment of Navarro's paper has: each is a file that has one, EXPERIMENT(name), and beside it <name>.toml.
 *
 * It prepares, and has counted what is between begin() and end(). One that tells more does so with tell().
 */
#ifndef COUNT_H
#define COUNT_H

#include <stddef.h>

enum { PAGE = 4096, KIB = 1024, MIB = 1024 * KIB, HUGEPAGE = 2 * MIB, PAGES = HUGEPAGE / PAGE };

struct experiment {
	const char *name;
	void (*run)(void);
	struct experiment *next;
};

void add_experiment(struct experiment *one);

/* Makes it known to main(); its file need be named nowhere. */
#define EXPERIMENT(of)                                                                                                 \
	static void run_##of(void);                                                                                    \
	static struct experiment experiment_##of = { #of, run_##of, NULL };                                            \
	__attribute__((constructor)) static void know_##of(void)                                                       \
	{                                                                                                              \
		add_experiment(&experiment_##of);                                                                      \
	}                                                                                                              \
	static void run_##of(void)

void begin(void);
void end(void);
void tell(const char *name, long number, const char *unit);

void fail(const char *what) __attribute__((noreturn));
char *map(size_t bytes);
void unmap(char *at, size_t bytes);
/* Writes a byte of each step. */
void touch(char *at, size_t bytes, size_t step);
/* How many this process has. */
long hugepages(void);
/* Tells that, and how much memory it has. */
void tell_memory(void);
/* Has so much memory used, once for what it is then, and once more to be counted, from mmap() to munmap(). */
void count_use(size_t bytes, void (*use)(char *at, size_t bytes));
/* Of this process, from /proc/self/smaps_rollup. */
long smaps_kib(const char *field);
/* Of /proc/vmstat. */
long vmstat(const char *field);
/* How much of memory is free in large extents, by Navarro's metric: 1000, if all memory were free. */
long contiguity(void);

#endif
