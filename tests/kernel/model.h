/* SPDX-License-Identifier: MIT */
/*
 * The model: what a program may expect of its memory, page by page.
 *
 * Three windows of addresses are modelled: the heap's, the one that mmap() fills, and the one where the kernel puts
 * mappings that it extends, if that is elsewhere. Each of their pages has a record; a page is free, mapped,
 * or foreign (it was there before the test, or is outside the windows). The records lie in one array, windows one after
 * the other; a "page number" is an index of it.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef PAGE_KIB
#define PAGE_KIB 4
#endif
#define PAGE (PAGE_KIB * 1024ul)
#define WORDS (PAGE / 8)
#define BLOCK 512ul /* pages of a hugepage: records are counted in blocks of it, so that searches are short */
#define HUGE (BLOCK * PAGE)

/* In pages, as lengths are: a seed draws the same whatever a page is. */
#define HEAP_PAGES (1ul << 14)
#define MMAP_PAGES (1ul << 17)
#define MMAP_END (HEAP_PAGES + MMAP_PAGES)
#define PAGES (MMAP_END + MMAP_PAGES)

/* Itanium: the kernel fills what it gives from the bottom, and puts what is shared at the start of a megabyte. */
#ifdef __ia64__
#define UPWARDS 1
#define SHARED_PAGES ((1ul << 20) / PAGE)
#else
#define UPWARDS 0
#define SHARED_PAGES 1ul
#endif

enum {
	MAPPED = 1 << 0,
	READABLE = 1 << 1,
	WRITABLE = 1 << 2,
	SHARED = 1 << 3,       /* contents are the object's */
	PRIVATE_FILE = 1 << 4, /* contents are the fixture's, until OWN */
	OWN = 1 << 5,          /* private page of a file, written since */
	FREED = 1 << 6,        /* MADV_FREE: the old contents or zeros */
	LOCKED = 1 << 7,
	GROWS = 1 << 8, /* MAP_GROWSDOWN */
	NORESERVE = 1 << 9,
	HUGEPAGE = 1 << 10,
	NOHUGEPAGE = 1 << 11,
	WIPED = 1 << 12,      /* zeros in a child */
	NOT_FORKED = 1 << 13, /* absent in a child */
	FOREIGN = 1 << 14,
};

struct page {
	uint32_t stamp; /* contents: 0 is zeros. Of a free page: what it held last */
	uint16_t flags;
	uint16_t area;  /* which mapping it came with */
	uint16_t index; /* its page of the object */
	uint8_t object;
};

/* Objects: some memfds that all mappings of them share, and one for each shared anonymous mapping. */
#define MEMFDS 3
#define OBJECTS 24
#define OBJECT_PAGES 2048
#define MEMFD_PAGES 1024
#define FIXTURE_PAGES 1024
#define FIXTURE_STAMP 0xf1000000u /* of page 0 of the file that is mapped privately; it never changes */

/* What forked processes have in common, because their memory has: outside the windows, mapped shared. */
struct shared {
	uint32_t stamp[OBJECTS][OBJECT_PAGES];
	uint64_t failed_at;  /* operation of the episode */
	uint64_t count[32];  /* operations done, by kind */
	uint64_t surplus[3]; /* brk() that left one: larger, smaller; that took from one */
	uint64_t slack[2];   /* mappings that have some behind, or before */
};

struct range {
	size_t start, end; /* page numbers, end excluded */
};

extern struct page page[PAGES];
extern uint32_t object_pages[OBJECTS], object_refs[OBJECTS];
extern struct shared *shared;
extern size_t mapped_pages;
extern size_t heap_end; /* page number of the heap's end as the program knows it */

/* Of the windows: where the heap begins, and addresses near the first that mmap() gives, plain or extended. */
void model_init(uintptr_t heap, uintptr_t mmap_first, uintptr_t extended_first);
void model_fork(void); /* in the child: what fork() changes */

uintptr_t address_of(size_t n);
size_t page_of(uintptr_t address); /* PAGES: outside the windows */
uint32_t contents_of(const struct page *p);
bool mapped(size_t n);
bool all_free(struct range r);
bool any_mapped(struct range r);
bool any_foreign(struct range r);
size_t nth_mapped(size_t n);
size_t next_mapped(size_t n);  /* the first one from n on; PAGES: none in this window */
bool near_anonymous(size_t n); /* an extension may reach as far as this */

/* The pages around n that came with it, and have not gone since. */
struct range area_around(size_t n);
/* The pages around n that are surely of one kind. */
struct range uniform_around(size_t n);
uint16_t new_area(void);
bool whole(struct range r);   /* of one mapping that no call has touched since */
void touched(struct range r); /* a call may have split the mappings in it */

void model_map(struct range r, uint16_t flags, uint16_t area, uint8_t object, uint16_t index);
void model_unmap(struct range r);
void model_move(struct range from, struct range to, bool keep);

#endif
