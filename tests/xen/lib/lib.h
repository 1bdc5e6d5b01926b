/* SPDX-License-Identifier: MIT */
/* What a test guest has: a console, hypercalls, page tables that it writes itself, and accesses that may fault. */
#ifndef LIB_H
#define LIB_H

#include <stdbool.h>
#include <stdint.h>

#define PAGE UINT64_C(4096)
#define SUPERPAGE (512 * PAGE)

#define P UINT64_C(0x001)
#define RW UINT64_C(0x002)
#define US UINT64_C(0x004)
#define A UINT64_C(0x020)
#define D UINT64_C(0x040)
#define PS UINT64_C(0x080)
#define NX (UINT64_C(1) << 63)
#define ADDRESS UINT64_C(0x000ffffffffff000)

/* Error codes of page faults; NONE: there was no fault. */
#define NONE (-1L)
#define PF_P 1
#define PF_W 2
#define PF_RSVD 8
#define PF_I 16

/* 24 MiB at 16 MiB, which hold nothing: the tests' own. 8 MiB from 48 MiB are the library's tables. */
#define ARENA UINT64_C(0x1000000)
#define EXTENTS 12
/* Where tests map: 1 GiB, by one l2 table. Guests in 32 bits with PAE have it in place of 1 GiB that holds nothing. */
#ifdef __x86_64__
#define WINDOW UINT64_C(0x40000000000)
#else
#define WINDOW UINT64_C(0x80000000)
#endif

extern const char test_name[];
void test(void);

void print(const char *format, ...) __attribute__((format(printf, 1, 2)));
void failure(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
#define check(condition, ...)                                                                                          \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			failure(__VA_ARGS__);                                                                          \
	} while (0)
/* Starts the second processor of a guest that has two (its xl.cfg) with a function that does not return. */
void start_second(void (*work)(void));
void skip(const char *why) __attribute__((noreturn));

long try_read(uint64_t address, uint64_t *value);
long try_write(uint64_t address, uint64_t value);
long try_jump(uint64_t address);

/* Reads the argument `name=N` of the guest's command line. */
uint64_t argument(const char *name, uint64_t otherwise);

/* A number of the sequence that `state` stands in (xorshift64, Marsaglia 2003). */
uint64_t draw(uint64_t *state);

/* What CR3 names. */
extern uint64_t top_table[];
/* The window's l2 table, and its entry for an address. */
extern uint64_t *window_l2;
uint64_t *l2_entry(uint64_t address);
/* The frame of what is mapped to itself. */
static inline uint64_t address_of(const void *what)
{
	return (uintptr_t)what;
}

/* A page that may become a page table. */
void *new_table(void);

static inline uint64_t *at(uint64_t physical)
{
	return (uint64_t *)(uintptr_t)physical;
}

static inline void invlpg(uint64_t address)
{
	asm volatile("invlpg (%0)" ::"r"((uintptr_t)address) : "memory");
}

static inline void flush(void)
{
	uintptr_t cr3;

	asm volatile("mov %%cr3, %0; mov %0, %%cr3" : "=r"(cr3)::"memory");
}

static inline void set(uint64_t *entry, uint64_t value)
{
	*(volatile uint64_t *)entry = value;
}

/* 8 bytes of each page of an extent that say which page it is. */
void tag_extent(uint64_t physical);
uint64_t tag_of(uint64_t physical);

long hypercall(unsigned int number, uintptr_t a, uintptr_t b, uintptr_t c);

/* Gives 2^order frames of its memory back to Xen, or asks for them: 1, 0 where Xen did not, or an error. */
long give_back(uint64_t frame, unsigned int order);
long ask_for(uint64_t frame, unsigned int order);
/* Lets other domains run. */
void yield(void);
/* The number of this domain. */
uint16_t own_domain(void);

#endif
