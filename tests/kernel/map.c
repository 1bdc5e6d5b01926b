// SPDX-License-Identifier: MIT
/* brk(), mmap(), munmap(). */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "maps.h"
#include "model.h"
#include "ops.h"
#include "parts.h"

#define MOST_HEAP ((10ul << 10) * PAGE)

uintptr_t brk_base, brk_now;
int memfd[MEMFDS], fixture;

/* brk() */

uintptr_t page_end(uintptr_t address)
{
	return (address + PAGE - 1) & ~(PAGE - 1);
}

static uintptr_t pick_brk(void)
{
	static const long near[] = { -(long)PAGE, -1, 0, 1, (long)PAGE };
	uintptr_t size = draw_pages(1100) * PAGE - (one_in(4) ? below(PAGE) : 0), at = brk_now;

	switch (below(8)) {
	case 0: /* less than a page */
		at += below(PAGE);
		break;
	case 1:
	case 2:
		at += size;
		break;
	case 3:
		at = brk_base + below(brk_now - brk_base + 1);
		break;
	case 4:
		at -= size < brk_now - brk_base ? size : brk_now - brk_base;
		break;
	case 5:
		at = ((at + below(2 * HUGE) + HUGE - 1) & ~(HUGE - 1)) + (uintptr_t)near[below(5)];
		break;
	case 6:
		at = (at & ~(HUGE - 1)) + (uintptr_t)near[below(5)];
		break;
	default:
		at = brk_base;
	}
	return at < brk_base ? brk_base : at > brk_base + MOST_HEAP ? brk_base + MOST_HEAP : at;
}

static bool can_grow(struct range r)
{
	return all_free((struct range){ r.start, r.end + 1 }) && clear_of_gap((struct range){ r.start, r.end + 1 });
}

/* mincore() tells whether anything is mapped, and touches nothing. */
static bool is_extension(size_t n)
{
	unsigned char resident;

	return !(page[n].flags & (MAPPED | FOREIGN)) && !mincore((void *)address_of(n), PAGE, &resident);
}

static bool has_surplus(void)
{
	return is_extension(heap_end);
}

static void set_brk(uintptr_t wanted)
{
	size_t old_end = page_of(page_end(brk_now)), new_end = page_of(page_end(wanted));
	struct range less = { new_end, old_end }, more = { old_end, new_end };
	bool possible = new_end == old_end || (new_end < old_end ? any_mapped(less) : can_grow(more));
	bool surplus = has_surplus();
	uintptr_t got;

	if (breaks(BREAK_BRK) && new_end > old_end)
		wanted -= PAGE;
	got = (uintptr_t)syscall(SYS_brk, wanted);
	say("brk(%#lx) = %#lx, from %#lx\n", wanted, got, brk_now);
	if (got != (possible ? wanted : brk_now) || page_of(page_end(got)) != (possible ? new_end : old_end))
		fail("brk(%#lx) gave %#lx, expected %#lx (from %#lx)", wanted, got, possible ? wanted : brk_now,
		     brk_now);
	brk_now = got;
	heap_end = page_of(page_end(got));
	if (possible && new_end < old_end)
		model_unmap(less);
	if (possible && new_end > old_end) {
		size_t reused = first_with_contents(more);
		uint32_t stamp = page[reused].stamp;

		model_map(more, READABLE | WRITABLE, 0, 0, 0);
		if (options.broken == BREAK_HEAP && reused)
			store(address_of(reused) + stamped[2] * 8, word_of(stamp, stamped[2]));
		check_reused(reused);
	}
	if (possible && new_end != old_end) {
		shared->surplus[new_end < old_end] += has_surplus();
		shared->surplus[2] += new_end > old_end && surplus;
	}
}

void op_brk(void)
{
	set_brk(mapped_pages < MOST_PAGES ? pick_brk() : brk_base);
}

/*
 * The heap comes to end within a hugepage, whose first page is then written, and later behind it: such a hugepage can
 * grow in place. Returns it, or 0 where there is no room.
 */
uintptr_t grow_over_hugepage(void)
{
	uintptr_t at = (brk_now + HUGE - 1) & ~(HUGE - 1);

	if (mapped_pages >= MOST_PAGES || at + HUGE > brk_base + MOST_HEAP)
		return 0;
	set_brk(at + (1 + below(BLOCK - 1)) * PAGE);
	if (brk_now <= at)
		return 0;
	write_page(page_of(at));
	set_brk(at + HUGE);
	return brk_now == at + HUGE ? at : 0;
}

/* mmap() */

struct request {
	int protection, flags, fd;
	uint16_t bits, index;
	uint8_t object;
	size_t pages;
};

uint16_t protection_bits(int protection)
{
	/* x86: what can be written can be read. */
	return (protection & (PROT_READ | PROT_WRITE) ? READABLE : 0) | (protection & PROT_WRITE ? WRITABLE : 0);
}

int pick_protection(void)
{
	return one_in(6) ? PROT_NONE : one_in(5) ? PROT_READ : PROT_READ | PROT_WRITE;
}

static int unused_object(void)
{
	for (int i = MEMFDS; i < OBJECTS; i++)
		if (!object_refs[i])
			return i;
	return 0;
}

static void request_object(struct request *q)
{
	int object = is_child || held ? 0 : unused_object();

	q->flags = MAP_SHARED;
	q->bits |= SHARED;
	if (object && one_in(2)) {
		q->flags |= MAP_ANONYMOUS;
		q->object = (uint8_t)object;
		object_pages[object] = (uint32_t)q->pages;
		memset(shared->stamp[object], 0, sizeof(shared->stamp[object]));
		return;
	}
	q->object = (uint8_t)below(MEMFDS);
	q->fd = memfd[q->object];
	q->index = (uint16_t)below(MEMFD_PAGES / 2);
}

static struct request pick_request(void)
{
	struct request q = { pick_protection(), MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, 0, 0, draw_pages(1600) };

	if (one_in(5)) /* as an arena of an allocator */
		q.pages = 256 >> (one_in(3) ? below(5) : 0);
	q.bits = protection_bits(q.protection);
	switch (below(20)) {
	case 0:
	case 1:
	case 2:
		request_object(&q);
		break;
	case 3:
	case 4:
		q.flags = MAP_PRIVATE;
		q.bits |= PRIVATE_FILE;
		q.fd = fixture;
		q.index = (uint16_t)below(FIXTURE_PAGES);
		break;
	case 5:
		q.flags |= MAP_NORESERVE;
		q.bits |= NORESERVE;
		break;
	case 6:
		if (options.noise)
			break; /* a read below would make it grow */
		q.flags |= MAP_GROWSDOWN;
		q.bits |= GROWS;
		q.pages = 1 + below(32);
		break;
	case 7:
		q.flags |= MAP_STACK;
		q.bits |= NOHUGEPAGE;
		break;
	case 8:
		q.flags |= MAP_LOCKED;
		q.bits |= LOCKED;
		break;
	case 9:
		q.flags |= MAP_POPULATE;
		break;
	}
	/* Filling pages takes long; few do as well. */
	if (q.flags & (MAP_LOCKED | MAP_POPULATE) && !one_in(8))
		q.pages = 1 + below(128);
	return q;
}

static uintptr_t call_mmap(const struct request *q, struct range at, int place)
{
	size_t bytes = q->pages * PAGE - (one_in(8) ? below(PAGE) : 0);
	void *hint = at.end ? (void *)address_of(at.start) : NULL;
	void *got = mmap(hint, bytes, q->protection, q->flags | place, q->fd, (off_t)(q->index * PAGE));

	say("mmap(%p, %#lx, %d, %#x, %d, %#lx) = %p%s%s\n", hint, bytes, q->protection, q->flags | place, q->fd,
	    q->index * PAGE, got, got == MAP_FAILED ? " " : "", got == MAP_FAILED ? strerror(errno) : "");
	if (got == MAP_FAILED && errno != EEXIST)
		fail("mmap of %#lx bytes at %p: %s", bytes, hint, strerror(errno));
	return (uintptr_t)got;
}

/* What a kernel keeps gives way to what comes next; this page does not, so it has to be looked at now. */
static void keep_writable(const struct request *q, struct range r)
{
	if (q->bits & (SHARED | PRIVATE_FILE | WRITABLE) || !all_free((struct range){ r.end, r.end + 2 }))
		return;
	mmap((void *)address_of(r.end), PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	check_maps();
}

static void take(const struct request *q, struct range r)
{
	size_t reused = first_with_contents(r);

	model_map(r, q->bits, new_area(), q->object, q->index);
	if (breaks(BREAK_ZERO) && !expected(&page[r.start], true) && !contents_of(&page[r.end - 1]) &&
	    !expected(&page[r.end - 1], true))
		store(address_of(r.end - 1) + stamped[2] * 8, 1);
	if (breaks(BREAK_PLACE) && !(q->flags & MAP_SHARED) && all_free((struct range){ r.end, r.end + 1 }))
		mmap((void *)address_of(r.end), PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (breaks(BREAK_RIGHTS))
		keep_writable(q, r);
	check_reused(reused);
}

static void map_anywhere(const struct request *q)
{
	struct range r = given(call_mmap(q, (struct range){ 0, 0 }, 0), q->pages, "mmap");

	take(q, r);
	shared->slack[0] += is_extension(r.end);
	shared->slack[1] += is_extension(r.start - 1);
}

static void map_hinted(const struct request *q)
{
	struct range hint = one_in(4) ? pick_place(q->pages) : pick_free_place(q->pages);
	uintptr_t got = call_mmap(q, hint, 0);
	bool taken = !(q->flags & MAP_SHARED) || address_of(hint.start) % (SHARED_PAGES * PAGE) == 0;

	if (hint.end && taken && all_free(hint) && clear_of_gap(hint) && got != address_of(hint.start))
		fail("mmap of %#lx bytes at the free hint %#lx gave %#lx", q->pages * PAGE, address_of(hint.start),
		     got);
	take(q, given(got, q->pages, "mmap with a hint"));
}

static void map_fixed(const struct request *q)
{
	struct range at = pick_place(q->pages);

	if (!at.end)
		return;
	if (call_mmap(q, at, MAP_FIXED) != address_of(at.start))
		fail("mmap with MAP_FIXED did not give %#lx", address_of(at.start));
	model_unmap(at);
	take(q, at);
}

static void map_noreplace(const struct request *q)
{
	struct range at = one_in(4) ? pick_place(q->pages) : pick_free_place(q->pages);
	bool free = at.end && all_free(at);
	uintptr_t got;

	if (!at.end)
		return;
	got = call_mmap(q, at, MAP_FIXED_NOREPLACE);
	if (got != (free ? address_of(at.start) : (uintptr_t)MAP_FAILED))
		fail("mmap of %#lx bytes with MAP_FIXED_NOREPLACE at %#lx, which is %s, gave %#lx", q->pages * PAGE,
		     address_of(at.start), free ? "free" : "taken", got);
	if (free)
		take(q, at);
}

void op_mmap(void)
{
	struct request q = pick_request();

	if (mapped_pages + q.pages > MOST_PAGES) {
		unmap(pick_range());
		return;
	}
	switch (below(8)) {
	case 0:
		map_hinted(&q);
		break;
	case 1:
		map_fixed(&q);
		break;
	case 2:
		map_noreplace(&q);
		break;
	default:
		map_anywhere(&q);
	}
}

/* munmap() */

void unmap(struct range r)
{
	size_t bytes = length_of(r) * PAGE;

	if (breaks(BREAK_LEAK))
		bytes -= PAGE;
	say("munmap(%#lx, %#lx)\n", address_of(r.start), bytes);
	if (bytes && munmap((void *)address_of(r.start), bytes))
		fail("munmap(%#lx, %#lx): %s", address_of(r.start), bytes, strerror(errno));
	model_unmap(r);
	check_gone(r);
}

void op_munmap(void)
{
	if (mapped_pages)
		unmap(pick_range());
}
