// SPDX-License-Identifier: MIT
/* What operations draw: numbers, lengths, pages, places. */
#define _GNU_SOURCE
#include "model.h"
#include "ops.h"
#include "parts.h"

#define GUARD_GAP 256ul /* pages that the kernel keeps free below a mapping that grows down */

static uint64_t drawn; /* state of the generator */

void draw_from(uint64_t seed)
{
	drawn = seed;
}

uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t x = a + 0x9e3779b97f4a7c15ul * (b + 1); /* splitmix64 */

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ul;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebul;
	return x ^ (x >> 31);
}

uint64_t draw(void)
{
	return drawn = mix(drawn, 0);
}

uint64_t below(uint64_t n)
{
	return draw() % n;
}

bool one_in(uint64_t n)
{
	return below(n) == 0;
}

bool breaks(enum broken what)
{
	return options.broken == what && one_in(16);
}

/* A length: any magnitude is as likely as another, and the sizes at which hugepages decide are likelier. */
size_t draw_pages(size_t most)
{
	static const size_t tails[] = { 0, 1, 255, 256, 257, 511 };
	size_t n = 1 + below(1ul << below(12));

	if (one_in(3))
		n = below(4) * BLOCK + tails[below(6)];
	return n < 1 ? 1 : n > most ? most : n;
}

static struct range without_foreign(struct range r)
{
	size_t n = r.start;

	while (n < r.end && n < PAGES && !(page[n].flags & FOREIGN))
		n++;
	return (struct range){ r.start, n };
}

/* Some pages: there is at least one that is mapped. */
struct range pick_range(void)
{
	size_t at = nth_mapped(below(mapped_pages)), length = draw_pages(1100);
	struct range r = area_around(at);

	switch (below(6)) {
	case 0: /* a whole mapping */
		break;
	case 1: /* its head */
		r.end = at + 1;
		break;
	case 2: /* its tail */
		r.start = at;
		break;
	case 3: /* its middle */
		r = (struct range){ at, at + length < r.end ? at + length : r.end };
		break;
	case 4: /* across mappings and holes */
		r = (struct range){ at, at + length };
		break;
	default: /* whole hugepages, mapped or not */
		r.start = at & ~(BLOCK - 1);
		if (page[r.start].flags & FOREIGN)
			r.start = at;
		r.end = r.start + BLOCK * (1 + below(2));
	}
	return without_foreign(r);
}

/* Somewhere near what is mapped, or on it; empty where it would meet something foreign. */
struct range pick_place(size_t length)
{
	size_t from = mapped_pages ? nth_mapped(below(mapped_pages))
		      : UPWARDS    ? HEAP_PAGES + 10 * BLOCK
				   : MMAP_END - 10 * BLOCK;
	size_t at = from + below(6 * BLOCK) - 3 * BLOCK;
	struct range r;

	if (one_in(4))
		at &= ~(BLOCK - 1);
	if (at >= PAGES || at < 1)
		return (struct range){ 0, 0 };
	r = (struct range){ at, at + length };
	return any_foreign(r) ? (struct range){ 0, 0 } : r;
}

struct range pick_free_place(size_t length)
{
	struct range r = { 0, 0 };

	for (int tries = 0; tries < 8; tries++) {
		r = pick_place(length);
		if (tries < 4 && mapped_pages) { /* right behind a mapping, first */
			r.start = area_around(nth_mapped(below(mapped_pages))).end;
			r.end = r.start + length;
		}
		if (r.end && all_free(r))
			return r;
	}
	return (struct range){ 0, 0 };
}

size_t length_of(struct range r)
{
	return r.end - r.start;
}

/* Whether the kernel's own choice of a place would stay clear of what comes next. */
bool clear_of_gap(struct range r)
{
	size_t next = next_mapped(r.end);

	return next == PAGES || !(page[next].flags & GROWS) || r.end + GUARD_GAP <= next;
}

/* A place that the kernel chose: it must have been free. */
struct range given(uintptr_t address, size_t length, const char *call)
{
	size_t n = page_of(address);
	struct range r = { n, n + length };

	if (address % PAGE)
		fail("%s gave %#lx, which is not the start of a page", call, address);
	if (n == PAGES || any_foreign(r))
		fail("%s gave %#lx of %#lx bytes, outside the modelled addresses", call, address, length * PAGE);
	if (any_mapped(r))
		fail("%s gave %#lx of %#lx bytes, where something is mapped", call, address, length * PAGE);
	return r;
}
