/* SPDX-License-Identifier: MIT */
/*
 * Tests of a kernel's memory calls, one case for each thing that must hold. Each case runs in a program of its own, as
 * what ABH does for a program is decided when it starts: first with ABH off, then with it on for everybody. A kernel
 * that has no ABH runs each once, as stock: there the cases must hold as well, or they ask too much.
 *
 * A case returns (it holds), fails, or skips with a reason. Output is TAP; lines "# value" are what was measured.
 */
#ifndef CASES_H
#define CASES_H

#include <linux/userfaultfd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KNOBS "/sys/kernel/mm/abh/"
#define PARTS "/sys/kernel/debug/abh/" /* switches of the parts, and: */
#define EVENTS PARTS "events"
#define KNOB KNOBS "enabled"
#define GROUP "/sys/fs/cgroup/cases"
#define TRACE "/sys/kernel/tracing/"
#define KIB 1024ul
#define MIB (1024 * KIB)
#define PAGE 4096ul
#define HUGE (2 * MIB)
#define ODD (1280 * KIB)    /* its tail is above the threshold: it is extended to 2 MiB */
#define CACTUS (4632 * KIB) /* cactusBSSN's: its tail is below; upstream's alignment made it up to 600 % slower */
#define ARENA MIB           /* CPython's */
#define PLAIN (MAP_PRIVATE | MAP_ANONYMOUS)
#define RW (PROT_READ | PROT_WRITE)
#define SKIPPED 4
#define NO_BOUND "1073741824" /* KiB, of unused_kib: most cases are of what one mapping gets */
#define NAMED 37              /* ways to speak of memory, */
#define SHAPES 5              /* memory that is spoken of, */
#define WAYS 4                /* and what is done to it besides */
#define ADDRESSES 7           /* that "tell" writes */
#define SEEN 8192             /* bytes, more than "bits32" writes */

struct test {
	const char *name;
	void (*run)(void);
	bool fixed; /* without random addresses: then there is no slack before the program's part */
};

extern const struct test *const themes[]; /* each ends with a test that has no name, and so do they */

extern const char *state; /* "stock", "off" or "on" */

/* What came of a case with ABH off, for the one with it on. */
extern struct off {
	long cactus_vmas, cactus_faults, granted, moved, beyond, beyond_moved;
	long bits[2][ADDRESSES];
	short named[SHAPES][NAMED * WAYS][2];
	bool said[NAMED];
	char narrow[2][SEEN];
	unsigned long fixed_heap;
} *off;

/* A call of madvise() for a thread, and what it returns. */
struct advice {
	char *start;
	size_t bytes;
	int advice, result;
};

int run_tests(int argc, char **argv);

static inline bool on(void)
{
	return state[1] == 'n';
}

__attribute__((format(printf, 1, 2), noreturn)) void fails(const char *format, ...);
__attribute__((noreturn)) void skips(const char *reason);
void value(const char *name, long number);
long read_number(const char *path, const char *key);
long of_process(const char *key);
__attribute__((format(printf, 2, 3))) int write_file(const char *path, const char *format, ...);
const char *knob(const char *name);
bool has_knob(const char *name);
bool thp_always(void);
long minor_faults(void);
char *maps(void);
long count_vmas(void);
bool find_vma(const void *address, uintptr_t *start, uintptr_t *end);
uintptr_t end_of(const void *address);
bool is_mapped(const void *address);
bool can_be_written(void *at);
size_t in_hugepages(const char *at, size_t bytes);
char *map_with(size_t bytes, int flags);
char *map(size_t bytes);
void fill(char *at, size_t bytes, int seed);
void wait_for(int child);
void expect(const char *at, size_t bytes, int seed, const char *where);
void limit(int which, long bytes);
void enter_group(const char *max, const char *swap);
int watch(const char *at, size_t bytes, unsigned long features);
void *give_back(void *advice);
struct uffd_msg told_by(int handle, void *(*act)(void *), void *with, void (*meanwhile)(void));
void expect_told(struct uffd_msg message, int event, const char *start, const char *end);
bool trace_has(const char *words);
void kunit(const char *suite, long fewest);

#endif
