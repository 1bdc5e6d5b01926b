// SPDX-License-Identifier: MIT
/* The operations of the fuzzer: those that read and write, fork, and the table of all. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "maps.h"
#include "model.h"
#include "ops.h"
#include "parts.h"

struct options options;
pid_t held;
bool is_child;
static int held_pipe;

const char *const break_names[BREAKS] = { "nothing", "zero", "heap", "protection", "leak",  "place",
					  "fork",    "lost", "move", "brk",        "rights" };

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

void say(const char *format, ...)
{
	va_list words;

	if (!options.verbose)
		return;
	va_start(words, format);
	vdprintf(1, format, words);
	va_end(words);
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

/* All of a hugepage that may be written: what grows in place is whole then. */
static void op_fill(void)
{
	uintptr_t at = one_in(2) ? grow_over_hugepage() : 0, end;
	size_t n;

	if (!at && mapped_pages)
		at = address_of(nth_mapped(below(mapped_pages))) & ~(HUGE - 1);
	for (end = at ? at + HUGE : 0; at < end; at += PAGE) {
		n = page_of(at);
		if (n < PAGES && mapped(n) && !expected(&page[n], true))
			write_page(n);
	}
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
	{ "join", op_join, 3 },          { "check", op_check, 1 },      { "fill", op_fill, 20 },
};

#define OPS (sizeof(ops) / sizeof(ops[0]))

const char *op_name(int n)
{
	return n < (int)OPS ? ops[n].name : NULL;
}

/* Without reservations nothing is filled: a seed does what it did before there were any. */
static unsigned weight_of(size_t op)
{
	return ops[op].run == op_fill && !options.reservations ? 0 : ops[op].weight;
}

void op_run(uint64_t seed)
{
	uint64_t total = 0, at;
	size_t i;

	draw_from(seed);
	for (i = 0; i < OPS; i++)
		total += weight_of(i);
	at = below(total);
	for (i = 0; at >= weight_of(i); i++)
		at -= weight_of(i);
	shared->count[i]++;
	ops[i].run();
}

static void fill_fixture(void)
{
	fixture = memfd_create("fixture", MFD_CLOEXEC);
	for (size_t n = 0; n < FIXTURE_PAGES; n++) {
		uint64_t words[WORDS] = { 0 };

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
	if (options.noise)
		start_noise();
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
