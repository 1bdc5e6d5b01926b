// SPDX-License-Identifier: MIT
/* Reading and writing pages, and what must be found there. */
#define _GNU_SOURCE
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <time.h>

#include "maps.h"
#include "model.h"
#include "ops.h"
#include "parts.h"

static sigjmp_buf faulted, noise_faulted;
static volatile sig_atomic_t guarded;
static char noise_stack[1 << 16] __attribute__((aligned(16)));

void on_fault(int number, siginfo_t *info, void *context)
{
	const char *stack = (const char *)&number;

	(void)context;
	if (stack >= noise_stack && stack < noise_stack + sizeof(noise_stack))
		siglongjmp(noise_faulted, number);
	if (!guarded)
		fail("signal %d of the test itself, at %p", number, info->si_addr);
	siglongjmp(faulted, number);
}

/* Returns the signal that the access got, or 0. */
int load(uintptr_t address, uint64_t *value)
{
	int number = sigsetjmp(faulted, 0);

	guarded = 1;
	if (!number)
		*value = *(volatile uint64_t *)address;
	guarded = 0;
	return number;
}

int store(uintptr_t address, uint64_t value)
{
	int number = sigsetjmp(faulted, 0);

	guarded = 1;
	if (!number)
		*(volatile uint64_t *)address = value;
	guarded = 0;
	return number;
}

/*
 * A second thread that reads anywhere, so that faults and calls meet. It shares the first one's thread-local storage,
 * as making its own would allocate memory: so it calls nothing that fails.
 */
static int noise(void *unused)
{
	static const struct timespec pause = { .tv_nsec = 500000 };
	static volatile uint64_t state, turn;

	(void)unused;
	for (;;) {
		state = mix(state, turn++);
		if (!sigsetjmp(noise_faulted, 0))
			*(volatile uint64_t *)(address_of(state % PAGES) & ~7ul);
		if (turn % 8 == 0)
			nanosleep(&pause, NULL);
	}
	return 0;
}

#ifdef __ia64__ /* A thread has a second stack there, of registers, from the bottom. No header declares it. */
int __clone2(int (*run)(void *), void *stack, size_t size, int flags, void *argument, ...);
#endif

void start_noise(void)
{
	int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
#ifdef __ia64__
	int thread = __clone2(noise, noise_stack, sizeof(noise_stack), flags, NULL);
#else
	int thread = clone(noise, noise_stack + sizeof(noise_stack), flags, NULL);
#endif

	if (thread < 0)
		fail("no thread");
}

/* The signal that the model expects of an access. */
int expected(const struct page *p, bool write)
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
const size_t stamped[3] = { 0, WORDS / 2, WORDS - 1 };

uint64_t word_of(uint32_t stamp, size_t word)
{
	return stamp ? stamp * 0x9e3779b97f4a7c15ul + word : 0;
}

static void expect_word(size_t n, size_t word, uint32_t stamp)
{
	uintptr_t address = address_of(n) + word * 8;
	uint64_t want = word % (WORDS / 2) == 0 || word == WORDS - 1 ? word_of(stamp, word) : 0, got;
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

void check_page(size_t n)
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
	expect_word(n, below(WORDS), stamp);
	if (one_in(64))
		for (size_t i = 0; i < WORDS; i++)
			expect_word(n, i, stamp);
}

/* Returns whether the page took it. */
bool write_page(size_t n)
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
void check_free_page(size_t n)
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
	/* What the heap gave up may be there, behind it; slack was never the program's. */
	if (got && (n >= HEAP_PAGES || got != word_of(page[n].stamp, 0)))
		fail("read of %#lx, beside a mapping: got %#lx, expected 0", address_of(n), got);
}

/* What was unmapped faults, whatever became of its hugepage: the ends, and some pages between. */
void check_gone(struct range r)
{
	uint64_t got;

	for (int i = 0; i < 6; i++) {
		size_t n = i == 0   ? r.start
			   : i == 1 ? r.end - 1
				    : r.start + below(r.end - r.start),
		       next = next_mapped(n);

		/* An access below a mapping that grows down makes it grow. */
		if (page[n].flags & (MAPPED | FOREIGN) || (next < PAGES && page[next].flags & GROWS))
			continue;
		if (!load(address_of(n), &got))
			fail("read of %#lx, which was unmapped: got %#lx, expected a fault", address_of(n), got);
	}
}

/* 0: there is none. */
size_t first_with_contents(struct range r)
{
	for (size_t n = r.start; n < r.end; n++)
		if (page[n].stamp)
			return n;
	return 0;
}

/* A page that held something before it was mapped anew is where a stale byte would be. */
void check_reused(size_t n)
{
	if (n && one_in(2))
		check_page(n);
}

/* Every page, or one in `every` of those that hold something. */
void check_pages(uint64_t every)
{
	size_t left = mapped_pages;

	for (size_t n = 0; left; n++) {
		if (!mapped(n)) {
			/* To where the next one can be. */
			n = next_mapped(n) < PAGES ? next_mapped(n) - 1
			    : n < HEAP_PAGES       ? HEAP_PAGES - 1
						   : MMAP_END - 1;
			continue;
		}
		left--;
		if (!expected(&page[n], false) && one_in(contents_of(&page[n]) ? every : 16 * every))
			check_page(n);
	}
	check_maps();
}
