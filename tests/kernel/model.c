// SPDX-License-Identifier: MIT
/* The model's records and how they are searched. */
#include <string.h>

#include "model.h"

struct page page[PAGES];
uint32_t object_pages[OBJECTS], object_refs[OBJECTS];
struct shared *shared;
size_t mapped_pages;
size_t heap_end;

static uint16_t mapped_in[PAGES / BLOCK], anonymous_in[PAGES / BLOCK];
/* The windows: where their records begin, and their addresses. */
static const size_t first[] = { 0, HEAP_PAGES, MMAP_END, PAGES };
static uintptr_t base[3];
static uint16_t last_area;
static bool split[1 << 16]; /* areas that a call has touched */

static uintptr_t window_of(uintptr_t first_given)
{
	uintptr_t at = first_given & ~(HUGE - 1);

	return UPWARDS ? at : at + 8 * HUGE - MMAP_PAGES * PAGE;
}

void model_init(uintptr_t heap, uintptr_t mmap_first, uintptr_t extended_first)
{
	base[0] = (heap & ~(HUGE - 1)) - HUGE;
	base[1] = window_of(mmap_first);
	if (page_of(extended_first) == PAGES)
		base[2] = window_of(extended_first);
	if (base[2] && base[2] < base[1] && base[2] + MMAP_PAGES * PAGE > base[1])
		base[2] = base[1] - MMAP_PAGES * PAGE;
	/* No range may run out of its window. */
	heap_end = page_of(heap);
	for (size_t n = 0; n < heap_end; n++)
		page[n].flags = FOREIGN;
	for (int i = 0; i < 3; i++)
		page[first[i]].flags = page[first[i + 1] - 1].flags = FOREIGN;
	for (size_t n = MMAP_END; !base[2] && n < PAGES; n++)
		page[n].flags = FOREIGN;
}

uintptr_t address_of(size_t n)
{
	int i = n < HEAP_PAGES ? 0 : n < MMAP_END ? 1 : 2;

	return base[i] + (n - first[i]) * PAGE;
}

size_t page_of(uintptr_t address)
{
	for (int i = 0; i < 3; i++)
		if (base[i] && address >= base[i] && address < base[i] + (first[i + 1] - first[i]) * PAGE)
			return first[i] + (address - base[i]) / PAGE;
	return PAGES;
}

uint32_t contents_of(const struct page *p)
{
	if (p->flags & SHARED)
		return shared->stamp[p->object][p->index];
	if ((p->flags & PRIVATE_FILE) && !(p->flags & OWN))
		return FIXTURE_STAMP + p->index;
	return p->stamp;
}

bool mapped(size_t n)
{
	return page[n].flags & MAPPED;
}

static bool any(struct range r, uint16_t flags)
{
	for (size_t n = r.start; n < r.end; n++)
		if (page[n].flags & flags)
			return true;
	return false;
}

bool all_free(struct range r)
{
	return r.end <= PAGES && !any(r, MAPPED | FOREIGN);
}

bool any_mapped(struct range r)
{
	return any(r, MAPPED);
}

bool any_foreign(struct range r)
{
	return r.end > PAGES || any(r, FOREIGN);
}

size_t nth_mapped(size_t n)
{
	size_t block = 0, at;

	while (n >= mapped_in[block])
		n -= mapped_in[block++];
	for (at = block * BLOCK; !mapped(at) || n--; at++)
		;
	return at;
}

size_t next_mapped(size_t n)
{
	size_t end = n < HEAP_PAGES ? HEAP_PAGES : n < MMAP_END ? MMAP_END : PAGES;

	while (n < end && !mapped(n))
		n = n % BLOCK == 0 && !mapped_in[n / BLOCK] ? n + BLOCK : n + 1;
	return n < end ? n : PAGES;
}

bool near_anonymous(size_t n)
{
	size_t block = n / BLOCK;

	return block == heap_end / BLOCK || anonymous_in[block] || (block && anonymous_in[block - 1]) ||
	       (block + 1 < PAGES / BLOCK && anonymous_in[block + 1]);
}

struct range area_around(size_t n)
{
	struct range r = { n, n + 1 };

	while (mapped(r.start - 1) && page[r.start - 1].area == page[n].area)
		r.start--;
	while (mapped(r.end) && page[r.end].area == page[n].area)
		r.end++;
	return r;
}

/* `a` is the page right before `b`: nothing that the model knows parts them. */
static bool continues(const struct page *a, const struct page *b)
{
	return !((a->flags ^ b->flags) & ~(OWN | FREED)) && a->object == b->object &&
	       (!(a->flags & (SHARED | PRIVATE_FILE)) || a->index + 1 == b->index);
}

struct range uniform_around(size_t n)
{
	struct range r = { n, n + 1 };

	while (continues(&page[r.start - 1], &page[r.start]))
		r.start--;
	while (continues(&page[r.end - 1], &page[r.end]))
		r.end++;
	return r;
}

uint16_t new_area(void)
{
	last_area = last_area == UINT16_MAX ? 1 : last_area + 1;
	split[last_area] = false;
	return last_area;
}

bool whole(struct range r)
{
	for (size_t n = r.start; n < r.end; n++)
		if (page[n].area != page[r.start].area)
			return false;
	return page[r.start].area && !split[page[r.start].area];
}

void touched(struct range r)
{
	for (size_t n = r.start; n < r.end; n++)
		split[page[n].area] = true;
}

static void set(size_t n, struct page new)
{
	struct page *p = &page[n];
	int before = p->flags & MAPPED ? 1 : 0, after = new.flags & MAPPED ? 1 : 0;

	if (before && (p->flags & SHARED))
		object_refs[p->object]--;
	if (after && (new.flags & SHARED))
		object_refs[new.object]++;
	mapped_pages += (size_t)(after - before);
	mapped_in[n / BLOCK] += (uint16_t)(after - before);
	anonymous_in[n / BLOCK] -= before && !(p->flags & (SHARED | PRIVATE_FILE));
	anonymous_in[n / BLOCK] += after && !(new.flags & (SHARED | PRIVATE_FILE));
	*p = new;
}

void model_map(struct range r, uint16_t flags, uint16_t area, uint8_t object, uint16_t index)
{
	touched(r);
	for (size_t n = r.start; n < r.end; n++, index++)
		set(n, (struct page){ 0, MAPPED | flags, area, index, object });
}

void model_unmap(struct range r)
{
	touched(r);
	for (size_t n = r.start; n < r.end; n++)
		if (mapped(n))
			set(n, (struct page){ .stamp = contents_of(&page[n]) });
}

/* A page that mremap() adds behind `last`. */
static struct page grown(const struct page *last, size_t distance)
{
	struct page p = *last;

	p.stamp = 0;
	p.flags &= (uint16_t)~(OWN | FREED);
	p.index = (uint16_t)(last->index + distance);
	return p;
}

/*
 * mremap(): pages go to a place that is free, or where they are, which may be longer. With `keep`, the old place stays
 * mapped, and is fresh.
 */
void model_move(struct range from, struct range to, bool keep)
{
	bool stays = from.start == to.start;
	uint16_t area = stays ? page[from.start].area : whole(from) ? new_area() : 0;
	struct page last = page[from.end - 1];

	for (size_t n = from.start, m = to.start; m < to.end; n++, m++) {
		struct page p = n < from.end ? page[n] : grown(&last, n - from.end + 1);

		p.area = area;
		set(m, p);
	}
	if (stays)
		return;
	touched(from);
	for (size_t n = from.start; n < from.end; n++)
		set(n, keep ? grown(&page[n], 0) : (struct page){ 0 });
}

static void fork_window(size_t start)
{
	for (size_t n = next_mapped(start); n < PAGES; n = next_mapped(n + 1)) {
		struct page *p = &page[n];

		p->flags &= (uint16_t)~LOCKED;
		if (p->flags & WIPED) {
			p->stamp = 0;
			p->flags &= (uint16_t)~FREED;
		}
		if (p->flags & NOT_FORKED)
			set(n, (struct page){ 0 });
	}
}

void model_fork(void)
{
	fork_window(0);
	fork_window(HEAP_PAGES);
	fork_window(MMAP_END);
}
