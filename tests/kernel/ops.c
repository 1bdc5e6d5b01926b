// SPDX-License-Identifier: MIT
/* The operations of the fuzzer. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "maps.h"
#include "model.h"
#include "ops.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

#define MOST_PAGES (48ul << 20 >> 12) /* mapped at a time: the memory that a test may take */
#define MOST_HEAP (40ul << 20)
#define GUARD_GAP 256ul /* pages that the kernel keeps free below a mapping that grows down */

struct options options;
static uint64_t drawn; /* state of the generator */
static uintptr_t brk_base, brk_now;
static int memfd[MEMFDS], fixture;
static pid_t held; /* child that waits for an operation to wake it */
static int held_pipe;
static bool is_child;

const char *const break_names[BREAKS] = { "nothing", "zero", "heap", "protection", "leak",
					  "place",   "fork", "lost", "move",       "brk" };

/* Drawing */

uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t x = a + 0x9e3779b97f4a7c15ul * (b + 1); /* splitmix64 */

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ul;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebul;
	return x ^ (x >> 31);
}

static uint64_t draw(void)
{
	return drawn = mix(drawn, 0);
}

static uint64_t below(uint64_t n)
{
	return draw() % n;
}

static bool one_in(uint64_t n)
{
	return below(n) == 0;
}

static bool breaks(enum broken what)
{
	return options.broken == what && one_in(16);
}

/* A length: any magnitude is as likely as another, and the sizes at which hugepages decide are likelier. */
static size_t draw_pages(size_t most)
{
	static const size_t tails[] = { 0, 1, 255, 256, 257, 511 };
	size_t n = 1 + below(1ul << below(12));

	if (one_in(3))
		n = below(4) * BLOCK + tails[below(6)];
	return n < 1 ? 1 : n > most ? most : n;
}

/* Failing */

void fail(const char *format, ...)
{
	char text[400];
	va_list words;

	va_start(words, format);
	vsnprintf(text, sizeof(text), format, words);
	va_end(words);
	if (!options.quiet)
		dprintf(1, "FAIL: %s\n", text);
	if (options.verbose)
		print_maps();
	_exit(1);
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list words;

	if (!options.verbose)
		return;
	va_start(words, format);
	vdprintf(1, format, words);
	va_end(words);
}

/* Touching memory */

static sigjmp_buf faulted;
static volatile sig_atomic_t guarded;

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (!guarded)
		fail("signal %d of the test itself, at %p", number, info->si_addr);
	siglongjmp(faulted, number);
}

/* Returns the signal that the access got, or 0. */
static int load(uintptr_t address, uint64_t *value)
{
	int number = sigsetjmp(faulted, 0);

	guarded = 1;
	if (!number)
		*value = *(volatile uint64_t *)address;
	guarded = 0;
	return number;
}

static int store(uintptr_t address, uint64_t value)
{
	int number = sigsetjmp(faulted, 0);

	guarded = 1;
	if (!number)
		*(volatile uint64_t *)address = value;
	guarded = 0;
	return number;
}

/* The signal that the model expects of an access. */
static int expected(const struct page *p, bool write)
{
	if (!(p->flags & (write ? WRITABLE : READABLE)))
		return SIGSEGV;
	if ((p->flags & SHARED) && p->index >= object_pages[p->object])
		return SIGBUS;
	if ((p->flags & PRIVATE_FILE) && !(p->flags & OWN) && p->index >= FIXTURE_PAGES)
		return SIGBUS;
	return 0;
}

/* A page is zeros but for three words, which depend on its stamp: first, middle and last. */
static const size_t stamped[] = { 0, 256, 511 };

static uint64_t word_of(uint32_t stamp, size_t word)
{
	return stamp ? stamp * 0x9e3779b97f4a7c15ul + word : 0;
}

static void expect_word(size_t n, size_t word, uint32_t stamp)
{
	uintptr_t address = address_of(n) + word * 8;
	uint64_t want = word % 256 == 0 || word == 511 ? word_of(stamp, word) : 0, got;
	int number = load(address, &got);

	if (number)
		fail("read of %#lx: signal %d, expected %#lx", address, number, want);
	if (got != want)
		fail("read of %#lx: got %#lx, expected %#lx", address, got, want);
}

/* A lazily freed page is what it was or zeros, and once zeros it stays so. */
static void settle_freed(struct page *p, size_t n)
{
	uint64_t first;

	if (!load(address_of(n), &first) && first == 0) {
		p->stamp = 0;
		p->flags &= (uint16_t)~FREED;
	}
}

static void check_page(size_t n)
{
	struct page *p = &page[n];
	int number = expected(p, false), got;
	uint32_t stamp;
	uint64_t word;

	if (number) {
		got = load(address_of(n), &word);
		if (got != number)
			fail("read of %#lx: signal %d, expected %d", address_of(n), got, number);
		return;
	}
	if (p->flags & FREED)
		settle_freed(p, n);
	stamp = contents_of(p);
	for (size_t i = 0; i < 3; i++)
		expect_word(n, stamped[i], stamp);
	expect_word(n, below(512), stamp);
	if (one_in(64))
		for (size_t i = 0; i < 512; i++)
			expect_word(n, i, stamp);
}

/* Returns whether the page took it. */
static bool write_page(size_t n)
{
	struct page *p = &page[n];
	int number = expected(p, true), got;
	uint32_t stamp = (uint32_t)draw() | 1;

	for (size_t i = 0; i < 3; i++) {
		got = store(address_of(n) + stamped[i] * 8, word_of(stamp, stamped[i]));
		if (got != number)
			fail("write to %#lx: signal %d, expected %d", address_of(n), got, number);
		if (number)
			return false;
	}
	if (p->flags & SHARED) {
		shared->stamp[p->object][p->index] = stamp;
		return true;
	}
	p->stamp = stamp;
	p->flags &= (uint16_t)~FREED;
	if (p->flags & PRIVATE_FILE)
		p->flags |= OWN;
	return true;
}

/* A page that nobody asked for: no access, or behind an extension, which holds nobody's data. */
static void check_free_page(size_t n)
{
	size_t next = next_mapped(n);
	uint64_t got;

	/* An access below a mapping that grows down makes it grow. */
	if (page[n].flags & (MAPPED | FOREIGN) || next == PAGES || page[next].flags & GROWS)
		return;
	if (load(address_of(n), &got))
		return;
	if (!options.extended)
		fail("read of %#lx, which is not mapped: got %#lx, expected a fault", address_of(n), got);
	if (!near_anonymous(n))
		fail("read of %#lx, far from any mapping: got %#lx, expected a fault", address_of(n), got);
	if (got && got != word_of(page[n].stamp, 0))
		fail("read of %#lx, behind a mapping: got %#lx, which the page never held", address_of(n), got);
}

/* Choosing pages */

static struct range without_foreign(struct range r)
{
	size_t n = r.start;

	while (n < r.end && n < PAGES && !(page[n].flags & FOREIGN))
		n++;
	return (struct range){ r.start, n };
}

/* Some pages: there is at least one that is mapped. */
static struct range pick_range(void)
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
static struct range pick_place(size_t length)
{
	size_t from = mapped_pages ? nth_mapped(below(mapped_pages)) : PAGES - 10 * BLOCK;
	size_t at = from + below(6 * BLOCK) - 3 * BLOCK;
	struct range r;

	if (one_in(4))
		at &= ~(BLOCK - 1);
	if (at >= PAGES || at < 1)
		return (struct range){ 0, 0 };
	r = (struct range){ at, at + length };
	return any_foreign(r) ? (struct range){ 0, 0 } : r;
}

static struct range pick_free_place(size_t length)
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

static size_t length_of(struct range r)
{
	return r.end - r.start;
}

/* Whether the kernel's own choice of a place would stay clear of what comes next. */
static bool clear_of_gap(struct range r)
{
	size_t next = next_mapped(r.end);

	return next == PAGES || !(page[next].flags & GROWS) || r.end + GUARD_GAP <= next;
}

/* A place that the kernel chose: it must have been free. */
static struct range given(uintptr_t address, size_t length, const char *call)
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

/* brk() */

static uintptr_t page_end(uintptr_t address)
{
	return (address + PAGE - 1) & ~(PAGE - 1);
}

static uintptr_t pick_brk(void)
{
	static const long near[] = { -4096, -1, 0, 1, 4096 };
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

/* 0: there is none. */
static size_t first_with_contents(struct range r)
{
	for (size_t n = r.start; n < r.end; n++)
		if (page[n].stamp)
			return n;
	return 0;
}

/* A page that held something before it was mapped anew is where a stale byte would be. */
static void check_reused(size_t n)
{
	if (n && one_in(2))
		check_page(n);
}

static bool can_grow(struct range r)
{
	return all_free((struct range){ r.start, r.end + 1 }) && clear_of_gap((struct range){ r.start, r.end + 1 });
}

static void set_brk(uintptr_t wanted)
{
	size_t old_end = page_of(page_end(brk_now)), new_end = page_of(page_end(wanted));
	struct range less = { new_end, old_end }, more = { old_end, new_end };
	bool possible = new_end == old_end || (new_end < old_end ? any_mapped(less) : can_grow(more));
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
			store(address_of(reused) + 511 * 8, word_of(stamp, 511));
		check_reused(reused);
	}
}

static void op_brk(void)
{
	set_brk(mapped_pages < MOST_PAGES ? pick_brk() : brk_base);
}

/* mmap() */

struct request {
	int protection, flags, fd;
	uint16_t bits, index;
	uint8_t object;
	size_t pages;
};

static uint16_t protection_bits(int protection)
{
	/* x86: what can be written can be read. */
	return (protection & (PROT_READ | PROT_WRITE) ? READABLE : 0) | (protection & PROT_WRITE ? WRITABLE : 0);
}

static int pick_protection(void)
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

static void take(const struct request *q, struct range r)
{
	size_t reused = first_with_contents(r);

	model_map(r, q->bits, new_area(), q->object, q->index);
	if (breaks(BREAK_ZERO) && !expected(&page[r.start], true) && !contents_of(&page[r.end - 1]) &&
	    !expected(&page[r.end - 1], true))
		store(address_of(r.end - 1) + 511 * 8, 1);
	if (breaks(BREAK_PLACE) && !(q->flags & MAP_SHARED) && all_free((struct range){ r.end, r.end + 1 }))
		mmap((void *)address_of(r.end), PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	check_reused(reused);
}

static void map_anywhere(const struct request *q)
{
	take(q, given(call_mmap(q, (struct range){ 0, 0 }, 0), q->pages, "mmap"));
}

static void map_hinted(const struct request *q)
{
	struct range hint = one_in(4) ? pick_place(q->pages) : pick_free_place(q->pages);
	uintptr_t got = call_mmap(q, hint, 0);

	if (hint.end && all_free(hint) && clear_of_gap(hint) && got != address_of(hint.start))
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

static void unmap(struct range r);

static void op_mmap(void)
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

static void unmap(struct range r)
{
	size_t bytes = length_of(r) * PAGE;

	if (breaks(BREAK_LEAK))
		bytes -= PAGE;
	say("munmap(%#lx, %#lx)\n", address_of(r.start), bytes);
	if (bytes && munmap((void *)address_of(r.start), bytes))
		fail("munmap(%#lx, %#lx): %s", address_of(r.start), bytes, strerror(errno));
	model_unmap(r);
	check_free_page(r.start + below(length_of(r)));
	check_free_page(r.end - 1);
}

static void op_munmap(void)
{
	if (mapped_pages)
		unmap(pick_range());
}

/* mprotect(), madvise(), mlock(): they go through the pages in order, and stop at what they cannot do */

/* At most one hole: with two, an error would not tell how far the call came where one of them is an extension. */
static struct range with_one_hole(struct range r)
{
	size_t n = r.start;

	while (n < r.end && mapped(n))
		n++;
	while (n < r.end && !mapped(n))
		n++;
	while (n < r.end && mapped(n))
		n++;
	return (struct range){ r.start, n };
}

/* The program may be told of no hole where the kernel has an extension; counted, as it is not as on stock. */
static bool hole_was_filled(int status, bool hole, int which)
{
	if (!hole || status || !options.extended)
		return false;
	shared->noticed[which]++;
	return true;
}

static void op_mprotect(void)
{
	int protection = pick_protection(), status, want;
	struct range r;
	size_t hole;
	bool filled;

	if (!mapped_pages)
		return;
	r = with_one_hole(pick_range());
	for (hole = r.start; hole < r.end && mapped(hole); hole++)
		;
	status = mprotect((void *)address_of(r.start), length_of(r) * PAGE, protection) ? errno : 0;
	say("mprotect(%#lx, %#lx, %d) = %s\n", address_of(r.start), length_of(r) * PAGE, protection, strerror(status));
	filled = hole_was_filled(status, hole < r.end, 0);
	want = hole < r.end && !filled ? ENOMEM : 0;
	if (status != want)
		fail("mprotect(%#lx, %#lx): %s, expected: %s", address_of(r.start), length_of(r) * PAGE,
		     strerror(status), strerror(want));
	touched(r);
	for (size_t n = r.start; n < (filled ? r.end : hole); n++)
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

static void op_madvise(void)
{
	const struct advice *advice = &advices[below(ADVICES)];
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
	if (breaks(BREAK_LOST) && advice->costs)
		madvise((void *)address_of(r.start), PAGE, MADV_DONTNEED);
	want = advise_model(advice, r);
	/* A kernel without hugepages knows no advice on them. */
	if (advice->costs || advice->sets & (HUGEPAGE | NOHUGEPAGE) || status == want)
		return;
	if (!hole_was_filled(status, want == ENOMEM, 1))
		fail("madvise(%#lx, %#lx, MADV_%s): %s, expected: %s", address_of(r.start), length_of(r) * PAGE,
		     advice->name, strerror(status), strerror(want));
}

static void op_mlock(void)
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

/* mremap() */

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

static void op_mremap(void)
{
	struct range old;
	size_t at, pages;

	if (!mapped_pages)
		return;
	at = nth_mapped(below(mapped_pages));
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

/* Reading and writing */

static void op_read(void)
{
	size_t n, end;

	if (!mapped_pages)
		return;
	n = nth_mapped(below(mapped_pages));
	for (end = n + (1ul << below(6)); n < end && mapped(n); n++) {
		check_page(n);
		if (expected(&page[n], false))
			break; /* a signal takes long, and the next page is likely to be alike */
	}
}

static void op_write(void)
{
	size_t n, end;

	if (!mapped_pages)
		return;
	n = nth_mapped(below(mapped_pages));
	for (end = n + (1ul << below(6)); n < end && mapped(n); n++)
		if (!write_page(n))
			break;
}

static void op_look_around(void)
{
	struct range r;

	if (!mapped_pages)
		return;
	r = area_around(nth_mapped(below(mapped_pages)));
	check_free_page(r.end);
	check_free_page(r.start - 1);
	check_free_page(r.end + below(BLOCK) < PAGES ? r.end + below(BLOCK) : PAGES - 1);
}

/* Every page, or one in `every` of those that hold something. */
static void check_pages(uint64_t every)
{
	size_t left = mapped_pages;

	for (size_t n = next_mapped(0) < PAGES ? next_mapped(0) : next_mapped(HEAP_PAGES); left; n++) {
		if (!mapped(n))
			continue;
		left--;
		if (!expected(&page[n], false) && one_in(contents_of(&page[n]) ? every : 16 * every))
			check_page(n);
	}
	check_maps();
}

static void op_check(void)
{
	say("check all\n");
	check_pages(1);
}

/* fork() */

static void wait_for(pid_t child, const char *what)
{
	int status;

	if (waitpid(child, &status, 0) != child || status)
		fail("%s ended with status %#x", what, (unsigned)status);
}

static void start_child(void)
{
	is_child = true;
	held = 0;
	model_fork();
}

/* The child goes on for a while, and the parent then finds its memory as it was. */
static void op_fork(void)
{
	uint64_t length = 1 + below(8), seed = draw();
	pid_t child;

	if (is_child)
		return;
	say("fork, and the child:\n");
	child = fork();
	if (child == 0) {
		start_child();
		for (uint64_t i = 0; i < length; i++)
			op_run(mix(seed, i));
		check_pages(8);
		_exit(0);
	}
	if (child < 0)
		fail("fork: %s", strerror(errno));
	wait_for(child, "child");
	say("end of the child\n");
}

/* As if a page of the child were still its parent's. */
static void spoil(void)
{
	for (size_t left = mapped_pages; left--;) {
		size_t n = nth_mapped(left);

		if (!expected(&page[n], true) && contents_of(&page[n])) {
			store(address_of(n), 1);
			return;
		}
	}
}

/* A child is kept waiting while the parent goes on, and then finds its memory as it was. */
static void op_hold(void)
{
	int ends[2];
	char byte;

	if (is_child || held)
		return;
	if (pipe(ends))
		fail("pipe: %s", strerror(errno));
	held = fork();
	if (held < 0)
		fail("fork: %s", strerror(errno));
	if (held == 0) {
		close(ends[1]);
		start_child();
		if (read(ends[0], &byte, 1) == 1) {
			if (options.broken == BREAK_FORK)
				spoil();
			check_pages(2);
		}
		_exit(0);
	}
	say("fork, and the child waits\n");
	close(ends[0]);
	held_pipe = ends[1];
}

static void op_join(void)
{
	if (!held)
		return;
	say("the child that waited checks its memory\n");
	if (write(held_pipe, "", 1) != 1)
		fail("the waiting child has gone");
	close(held_pipe);
	wait_for(held, "the waiting child");
	held = 0;
}

/* All */

static const struct {
	const char *name;
	void (*run)(void);
	unsigned weight;
} ops[] = {
	{ "read", op_read, 250 },        { "write", op_write, 220 },    { "look-around", op_look_around, 40 },
	{ "brk", op_brk, 120 },          { "mmap", op_mmap, 110 },      { "munmap", op_munmap, 70 },
	{ "mprotect", op_mprotect, 50 }, { "madvise", op_madvise, 80 }, { "mremap", op_mremap, 50 },
	{ "mlock", op_mlock, 5 },        { "fork", op_fork, 3 },        { "hold", op_hold, 2 },
	{ "join", op_join, 3 },          { "check", op_check, 1 },
};

#define OPS (sizeof(ops) / sizeof(ops[0]))

const char *op_name(int n)
{
	return n < (int)OPS ? ops[n].name : NULL;
}

void op_run(uint64_t seed)
{
	uint64_t total = 0, at;
	size_t i;

	drawn = seed;
	for (i = 0; i < OPS; i++)
		total += ops[i].weight;
	at = below(total);
	for (i = 0; at >= ops[i].weight; i++)
		at -= ops[i].weight;
	shared->count[i]++;
	ops[i].run();
}

static void fill_fixture(void)
{
	fixture = memfd_create("fixture", MFD_CLOEXEC);
	for (size_t n = 0; n < FIXTURE_PAGES; n++) {
		uint64_t words[512] = { 0 };

		for (size_t i = 0; i < 3; i++)
			words[stamped[i]] = word_of(FIXTURE_STAMP + (uint32_t)n, stamped[i]);
		if (write(fixture, words, sizeof(words)) != sizeof(words))
			fail("writing the fixture: %s", strerror(errno));
	}
}

uintptr_t ops_prepare(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER };

	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	fill_fixture();
	brk_base = brk_now = (uintptr_t)syscall(SYS_brk, page_end((uintptr_t)sbrk(0)));
	return brk_base;
}

void ops_begin(void)
{
	memset(shared->stamp, 0, sizeof(shared->stamp));
	for (int i = 0; i < MEMFDS; i++) {
		memfd[i] = memfd_create("object", MFD_CLOEXEC);
		object_pages[i] = MEMFD_PAGES;
		if (memfd[i] < 0 || ftruncate(memfd[i], MEMFD_PAGES * PAGE))
			fail("memfd: %s", strerror(errno));
	}
}

void ops_finish(void)
{
	op_join();
	check_pages(1);
	while (mapped_pages) {
		struct range r = area_around(nth_mapped(0));

		unmap(r);
	}
	syscall(SYS_brk, brk_base);
	check_maps();
}
