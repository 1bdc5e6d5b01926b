// SPDX-License-Identifier: MIT
/* mremap(). */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "model.h"
#include "ops.h"
#include "parts.h"

/* Returns the new address, or 0 if old pages are not of one mapping, which the model cannot always tell. */
static uintptr_t call_mremap(struct range old, size_t pages, int flags, struct range to, int *status)
{
	void *target = to.end ? (void *)address_of(to.start) : NULL;
	void *got = mremap((void *)address_of(old.start), length_of(old) * PAGE, pages * PAGE, flags, target);

	*status = got == MAP_FAILED ? errno : 0;
	say("mremap(%#lx, %#lx, %#lx, %d, %p) = %p, %s\n", address_of(old.start), length_of(old) * PAGE, pages * PAGE,
	    flags, target, got, strerror(*status));
	if (*status == EFAULT && !whole(old))
		return 0;
	if (*status && *status != ENOMEM)
		fail("mremap(%#lx, %#lx, %#lx, %d, %p): %s", address_of(old.start), length_of(old) * PAGE, pages * PAGE,
		     flags, target, strerror(*status));
	return (uintptr_t)got;
}

static void remap_smaller(struct range old, size_t pages)
{
	int status;
	uintptr_t got = call_mremap(old, pages, one_in(2) ? MREMAP_MAYMOVE : 0, (struct range){ 0, 0 }, &status);

	if (!got)
		return;
	if (got != address_of(old.start))
		fail("mremap() of %#lx to fewer pages gave %#lx", address_of(old.start), got);
	model_unmap((struct range){ old.start + pages, old.end });
	if (pages < length_of(old))
		check_gone((struct range){ old.start + pages, old.end });
}

static void remap_larger(struct range old, size_t pages)
{
	struct range place = { old.start, old.start + pages }, more = { old.end, place.end };
	bool may_move = one_in(2), room = all_free(more);
	size_t lost;
	uintptr_t got;
	int status;

	got = call_mremap(old, pages, may_move ? MREMAP_MAYMOVE : 0, (struct range){ 0, 0 }, &status);
	if (!got)
		return;
	if (status) {
		if (room || may_move)
			fail("mremap() of %#lx to more pages: %s, and there is room", address_of(old.start),
			     strerror(status));
		return;
	}
	if (got == address_of(old.start) && !room)
		fail("mremap() let %#lx grow over what is mapped", got);
	if (got != address_of(old.start) && (!may_move || (room && !options.extended)))
		fail("mremap() moved %#lx to %#lx", address_of(old.start), got);
	if (got != address_of(old.start))
		place = given(got, pages, "mremap");
	model_move(old, place, false);
	if (place.start != old.start)
		check_gone(old);
	if (options.broken == BREAK_MOVE && (lost = first_with_contents(place)))
		madvise((void *)address_of(lost), PAGE, MADV_DONTNEED);
}

static void remap_to(struct range old, size_t pages, bool keep)
{
	int flags = MREMAP_MAYMOVE | MREMAP_FIXED | (keep ? MREMAP_DONTUNMAP : 0), status;
	struct range to = pick_place(pages), tail = { old.start + pages, old.end };

	if (!to.end || (to.start < old.end && old.start < to.end))
		return;
	if (!call_mremap(old, pages, flags, to, &status)) {
		/* How far it came is not known: make it known. */
		munmap((void *)address_of(to.start), pages * PAGE);
		model_unmap(to);
		if (pages < length_of(old)) {
			munmap((void *)address_of(tail.start), length_of(tail) * PAGE);
			model_unmap(tail);
		}
		return;
	}
	if (status)
		fail("mremap() to %#lx: %s", address_of(to.start), strerror(status));
	model_unmap(to);
	if (pages < length_of(old)) {
		model_unmap(tail);
		old.end = tail.start;
	}
	model_move(old, to, keep);
}

static void remap_and_keep(struct range old)
{
	int status;
	uintptr_t got;

	/* The kernel checks for an overlap with the new address even where it takes none, and none is 0. */
	if (address_of(old.start) < length_of(old) * PAGE)
		return;
	got = call_mremap(old, length_of(old), MREMAP_MAYMOVE | MREMAP_DONTUNMAP, (struct range){ 0, 0 }, &status);
	if (!got)
		return;
	if (status)
		fail("mremap() with MREMAP_DONTUNMAP: %s", strerror(status));
	model_move(old, given(got, length_of(old), "mremap"), true);
}

/* What the program has not got does not move: beside a mapping, and behind the heap, may be what the kernel keeps. */
static void remap_nothing(struct range beside)
{
	size_t n = one_in(2) ? beside.end : beside.start - 1, pages = 1 + draw_pages(1500);
	void *got;

	if (one_in(2))
		n = page_of(page_end(brk_now));
	if (n >= PAGES || page[n].flags & (MAPPED | FOREIGN))
		return;
	got = mremap((void *)address_of(n), PAGE, pages * PAGE, MREMAP_MAYMOVE);
	say("mremap(%#lx, %#lx, %#lx, MREMAP_MAYMOVE) = %p\n", address_of(n), PAGE, pages * PAGE, got);
	if (got != MAP_FAILED || errno != EFAULT)
		fail("mremap() of %#lx, which is not mapped: %p, %s; expected: %s", address_of(n), got, strerror(errno),
		     strerror(EFAULT));
}

void op_mremap(void)
{
	struct range old;
	size_t at, pages;

	if (!mapped_pages)
		return;
	at = nth_mapped(below(mapped_pages));
	if (one_in(8)) {
		remap_nothing(area_around(at));
		return;
	}
	old = uniform_around(at);
	if (one_in(3))
		old.start = at;
	if (one_in(3))
		old.end = at + 1;
	pages = length_of(old);
	if (page[at].flags & GROWS || mapped_pages + pages + 1600 > MOST_PAGES)
		return;
	if (one_in(2))
		pages += draw_pages(1500);
	switch (below(5)) {
	case 0:
		remap_smaller(old, 1 + below(length_of(old)));
		break;
	case 1:
	case 2:
		if (pages > length_of(old) && !any_foreign((struct range){ old.end, old.start + pages }))
			remap_larger(old, pages);
		break;
	case 3:
		if (!(page[at].flags & LOCKED))
			remap_to(old, one_in(3) ? 1 + below(length_of(old)) : pages, false);
		break;
	default:
		if (page[at].flags & LOCKED)
			break;
		if (one_in(2))
			remap_to(old, length_of(old), true);
		else
			remap_and_keep(old);
	}
}
