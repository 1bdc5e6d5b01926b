// SPDX-License-Identifier: MIT
/* mprotect(), madvise(), mlock(): they go through the pages in order, and stop at what they cannot do. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "model.h"
#include "ops.h"
#include "parts.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

void op_mprotect(void)
{
	int protection = pick_protection(), status, want;
	struct range r;
	size_t hole;

	if (!mapped_pages)
		return;
	r = pick_range();
	for (hole = r.start; hole < r.end && mapped(hole); hole++)
		;
	status = mprotect((void *)address_of(r.start), length_of(r) * PAGE, protection) ? errno : 0;
	say("mprotect(%#lx, %#lx, %d) = %s\n", address_of(r.start), length_of(r) * PAGE, protection, strerror(status));
	want = hole < r.end ? ENOMEM : 0;
	if (status != want)
		fail("mprotect(%#lx, %#lx): %s, expected: %s", address_of(r.start), length_of(r) * PAGE,
		     strerror(status), strerror(want));
	touched(r);
	for (size_t n = r.start; n < hole; n++)
		if (mapped(n))
			page[n].flags =
				(uint16_t)((page[n].flags & ~(READABLE | WRITABLE)) | protection_bits(protection));
	if (breaks(BREAK_PROTECTION) && mapped(r.end))
		mprotect((void *)address_of(r.end), PAGE, protection);
}

static void drop(struct page *p)
{
	p->stamp = 0;
	p->flags &= (uint16_t)~(OWN | FREED);
}

static void free_lazily(struct page *p)
{
	if (p->stamp)
		p->flags |= FREED;
}

static const struct advice {
	int number;
	uint16_t stops_at; /* pages with one of these are an error */
	uint16_t sets, clears;
	void (*does)(struct page *p);
	bool costs; /* so it gets few pages */
	const char *name;
} advices[] = {
	{ MADV_DONTNEED, LOCKED, 0, 0, drop, false, "DONTNEED" },
	{ MADV_DONTNEED, LOCKED, 0, 0, drop, false, "DONTNEED" },
	{ MADV_FREE, LOCKED | SHARED | PRIVATE_FILE, 0, 0, free_lazily, false, "FREE" },
	{ MADV_HUGEPAGE, 0, HUGEPAGE, NOHUGEPAGE, NULL, false, "HUGEPAGE" },
	{ MADV_HUGEPAGE, 0, HUGEPAGE, NOHUGEPAGE, NULL, false, "HUGEPAGE" },
	{ MADV_NOHUGEPAGE, 0, NOHUGEPAGE, HUGEPAGE, NULL, false, "NOHUGEPAGE" },
	{ MADV_WIPEONFORK, SHARED | PRIVATE_FILE, WIPED, 0, NULL, false, "WIPEONFORK" },
	{ MADV_KEEPONFORK, 0, 0, WIPED, NULL, false, "KEEPONFORK" },
	{ MADV_DONTFORK, 0, NOT_FORKED, 0, NULL, false, "DONTFORK" },
	{ MADV_DOFORK, 0, 0, NOT_FORKED, NULL, false, "DOFORK" },
	/* These keep the contents; whether they can do anything is the kernel's affair. */
	{ MADV_COLLAPSE, 0, 0, 0, NULL, true, "COLLAPSE" },
	{ MADV_PAGEOUT, 0, 0, 0, NULL, true, "PAGEOUT" },
	{ MADV_PAGEOUT, 0, 0, 0, NULL, true, "PAGEOUT" },
	{ MADV_COLD, 0, 0, 0, NULL, true, "COLD" },
	{ MADV_POPULATE_READ, 0, 0, 0, NULL, true, "POPULATE_READ" },
	{ MADV_POPULATE_WRITE, 0, 0, 0, NULL, true, "POPULATE_WRITE" },
};

#define ADVICES (sizeof(advices) / sizeof(advices[0]))

static int advise_model(const struct advice *advice, struct range r)
{
	int status = 0;

	for (size_t n = r.start; n < r.end; n++) {
		struct page *p = &page[n];

		if (!mapped(n)) {
			status = ENOMEM;
			continue;
		}
		if (p->flags & advice->stops_at)
			return EINVAL;
		p->flags = (uint16_t)((p->flags | advice->sets) & ~advice->clears);
		if (advice->does)
			advice->does(p);
	}
	return status;
}

void op_madvise(void)
{
	const struct advice *advice = &advices[below(ADVICES)];
	size_t lost;
	int status, want;
	struct range r;

	if (!mapped_pages)
		return;
	r = pick_range();
	if (advice->costs && length_of(r) > 64 && !one_in(16))
		r.end = r.start + 64;
	status = madvise((void *)address_of(r.start), length_of(r) * PAGE, advice->number) ? errno : 0;
	say("madvise(%#lx, %#lx, MADV_%s) = %s\n", address_of(r.start), length_of(r) * PAGE, advice->name,
	    strerror(status));
	touched(r);
	if (options.broken == BREAK_LOST && advice->costs && (lost = first_with_contents(r)))
		madvise((void *)address_of(lost), PAGE, MADV_DONTNEED);
	want = advise_model(advice, r);
	/* A kernel without hugepages knows no advice on them. */
	if (advice->costs || advice->sets & (HUGEPAGE | NOHUGEPAGE) || status == want)
		return;
	fail("madvise(%#lx, %#lx, MADV_%s): %s, expected: %s", address_of(r.start), length_of(r) * PAGE, advice->name,
	     strerror(status), strerror(want));
}

void op_mlock(void)
{
	bool lock = one_in(2), on_fault = one_in(2);
	struct range r;
	size_t n;

	if (!mapped_pages)
		return;
	r.start = nth_mapped(below(mapped_pages));
	r.end = r.start + 1 + below(128);
	for (n = r.start; n < r.end && mapped(n); n++) {
		page[n].flags &= (uint16_t)~LOCKED;
		page[n].flags |= lock ? LOCKED : 0;
	}
	r.end = n;
	touched(r);
	say("m%slock(%#lx, %#lx)\n", lock ? "" : "un", address_of(r.start), length_of(r) * PAGE);
	if (lock)
		mlock2((void *)address_of(r.start), length_of(r) * PAGE, on_fault ? MLOCK_ONFAULT : 0);
	else
		munlock((void *)address_of(r.start), length_of(r) * PAGE);
}
