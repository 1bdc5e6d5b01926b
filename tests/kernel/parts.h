/* SPDX-License-Identifier: MIT */
/* What the fuzzer's parts have of each other. */
#ifndef PARTS_H
#define PARTS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "model.h"
#include "ops.h"

#define MOST_PAGES (12ul << 10) /* mapped at a time: the memory that a test may take */

extern uintptr_t brk_base, brk_now;
extern int memfd[MEMFDS], fixture;
extern pid_t held; /* child that waits for an operation to wake it */
extern bool is_child;

/* draw.c */
void draw_from(uint64_t seed);
uint64_t draw(void);
uint64_t below(uint64_t n);
bool one_in(uint64_t n);
bool breaks(enum broken what);
size_t draw_pages(size_t most);
struct range pick_range(void);
struct range pick_place(size_t length);
struct range pick_free_place(size_t length);
size_t length_of(struct range r);
bool clear_of_gap(struct range r);
struct range given(uintptr_t address, size_t length, const char *call);

/* access.c */
extern const size_t stamped[3];
void start_noise(void);
void on_fault(int number, siginfo_t *info, void *context);
int store(uintptr_t address, uint64_t value);
int expected(const struct page *p, bool write);
uint64_t word_of(uint32_t stamp, size_t word);
void check_page(size_t n);
bool write_page(size_t n);
void check_free_page(size_t n);
void check_gone(struct range r);
size_t first_with_contents(struct range r);
void check_reused(size_t n);
void check_pages(uint64_t every);

/* The operations that are calls: map.c, advise.c, remap.c */
uintptr_t page_end(uintptr_t address);
uint16_t protection_bits(int protection);
int pick_protection(void);
void unmap(struct range r);
void op_brk(void);
uintptr_t grow_over_hugepage(void);
void op_mmap(void);
void op_munmap(void);
void op_mprotect(void);
void op_madvise(void);
void op_mlock(void);
void op_mremap(void);

__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

#endif
