/* SPDX-License-Identifier: MIT */
/* What a test guest has: a console, hypercalls, page tables that it writes itself, and accesses that may fault. */
#ifndef LIB_H
#define LIB_H

#include <stdbool.h>
#include <stdint.h>

#define PAGE 4096UL
#define SUPERPAGE (512 * PAGE)

#define P 0x001UL
#define RW 0x002UL
#define US 0x004UL
#define A 0x020UL
#define D 0x040UL
#define PS 0x080UL
#define NX (1UL << 63)
#define ADDRESS 0x000ffffffffff000UL

/* Error codes of page faults; NONE: there was no fault. */
#define NONE (-1L)
#define PF_P 1
#define PF_W 2
#define PF_RSVD 8
#define PF_I 16

/* 24 MiB at 16 MiB, which hold nothing: the tests' own. 8 MiB from 48 MiB are the library's tables. */
#define ARENA 0x1000000UL
#define EXTENTS 12
#define WINDOW 0x40000000000UL /* where tests map: 1 GiB, by one l2 table */

extern const char test_name[];
void test(void);

void print(const char *format, ...) __attribute__((format(printf, 1, 2)));
void failure(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
#define check(condition, ...)                                                                                          \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			failure(__VA_ARGS__);                                                                          \
	} while (0)
void skip(const char *why) __attribute__((noreturn));

long try_read(uint64_t address, uint64_t *value);
long try_write(uint64_t address, uint64_t value);
long try_jump(uint64_t address);

/* Reads the argument `name=N` of the guest's command line. */
uint64_t argument(const char *name, uint64_t otherwise);

/* A number of the sequence that `state` stands in (xorshift64, Marsaglia 2003). */
uint64_t draw(uint64_t *state);

/* The window's l2 table, and its entry for an address. */
extern uint64_t *window_l2;
uint64_t *l2_entry(uint64_t address);
/* A page that may become a page table. */
void *new_table(void);

static inline uint64_t *at(uint64_t physical)
{
	return (uint64_t *)physical;
}

static inline void invlpg(uint64_t address)
{
	asm volatile("invlpg (%0)" ::"r"(address) : "memory");
}

static inline void flush(void)
{
	uint64_t cr3;

	asm volatile("mov %%cr3, %0; mov %0, %%cr3" : "=r"(cr3)::"memory");
}

static inline void set(uint64_t *entry, uint64_t value)
{
	*(volatile uint64_t *)entry = value;
}

/* 8 bytes of each page of an extent that say which page it is. */
void tag_extent(uint64_t physical);
uint64_t tag_of(uint64_t physical);

long hypercall(unsigned int number, uint64_t a, uint64_t b, uint64_t c);
uint64_t seconds_x1000(void);

#endif
