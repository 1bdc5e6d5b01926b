// SPDX-License-Identifier: MIT
// Calls of memory at random, with a plain model of what each page of a window of addresses may be used for and holds:
// superpages come, and are cut, moved, copied and emptied in all their parts, and a program must not see it. Linux has
// pages of 64 KiB to 16 MiB for it under `superpages=16M`, and none without. A round is a call; the number of rounds is
// also what the draws begin with.
#include "../boot/init.h"

enum { PAGES = 2048, WORDS = PAGE / 8, EPISODE = 400, ALIGNED = 16 << 20 };
enum { MAPPED = 1, READABLE = 2, WRITABLE = 4, LAZY = 8 }; // LAZY: what it held, or zeros
enum { FIXED = 0x32, MOVED = 3, DONTNEED = 4, FREE = 8, ENOMEM = -12, EFAULT = -14 };

struct page {
	unsigned int stamp; // 0: zeros
	unsigned int flags;
};
struct range {
	word from, to; // pages
};

static struct page model[PAGES];
static char *window;
static word state, number, moved;
static int well, is_child, ends[2], held_ends[2];
static long held; // a child that waits

static word draw(void)
{
	word x = state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static word below(word n)
{
	return draw() % n;
}

static void expect(const char *what, word page, word got, word expected)
{
	if (got == expected)
		return;
	if (well) {
		say("fuzz: ");
		say(what);
		say_number(": call ", number);
		say_number("  page ", page);
		say_number("  got ", got);
		say_number("  expected ", expected);
	}
	well = 0;
}

static word *at(word page)
{
	return (word *)(window + page * PAGE);
}

// Any size is as likely as another; some begin and end where superpages do.
static struct range some(void)
{
	word length = 1 + below(1UL << below(12)), from;

	if (length > PAGES)
		length = PAGES;
	from = below(PAGES - length + 1);
	if (!below(3)) {
		word size = 4UL << 2 * below(5); // pages

		from = from / size * size;
		length = (length + size - 1) / size * size;
	}
	return (struct range){ from, from + length < PAGES ? from + length : PAGES };
}

static void set(struct range r, struct page to)
{
	for (word page = r.from; page < r.to; page++)
		model[page] = to;
}

// The value that a page with this stamp has in a word: three are written, the others are zeros.
static word value(unsigned int stamp, word in)
{
	return stamp && (!in || in == WORDS / 2 || in == WORDS - 1) ? stamp * 0x9e3779b97f4a7c15 + in : 0;
}

// The kernel's own access to a page of the program's: an error where the program may not.
static void check_by_kernel(word page)
{
	word in = below(2) ? 0 : below(WORDS), got = 0;
	int readable = model[page].flags & READABLE;
	long count = call(ends[1], (long)(at(page) + in), 8, 0, 0, 0, WRITE);

	expect("a read by the kernel", page, count, readable ? 8 : EFAULT);
	if (count != 8)
		return;
	call(ends[0], (long)&got, 8, 0, 0, 0, READ);
	if (!(model[page].flags & LAZY))
		expect("what the kernel read", page, got, value(model[page].stamp, in));
}

static void check(word page)
{
	struct page *one = &model[page];
	volatile word *words = at(page);
	word step = below(64) ? WORDS / 2 : 1;

	if (!below(4)) // a call takes as many instructions as ten pages do
		check_by_kernel(page);
	if (!(one->flags & READABLE))
		return;
	if (one->flags & LAZY && !*words) {
		one->stamp = 0;
		one->flags &= ~LAZY;
	}
	for (word in = 0; in < WORDS; in += step)
		expect("what a page holds", page, words[in], value(one->stamp, in));
	expect("the end of a page", page, words[WORDS - 1], value(one->stamp, WORDS - 1));
	step = below(WORDS);
	expect("a word of a page", page, words[step], value(one->stamp, step));
}

// Writes a page, itself or by the kernel.
static void put(word page)
{
	unsigned int stamp = draw() | 1;
	word *words = at(page), first;

	if (!(model[page].flags & WRITABLE)) {
		call(ends[1], (long)&stamp, 1, 0, 0, 0, WRITE);
		expect("a write by the kernel", page, call(ends[0], (long)words, 1, 0, 0, 0, READ), EFAULT);
		if (well)
			call(ends[0], (long)&stamp, 1, 0, 0, 0, READ); // it is still there
		return;
	}
	first = value(stamp, 0);
	if (below(4)) {
		words[0] = first;
	} else {
		call(ends[1], (long)&first, 8, 0, 0, 0, WRITE);
		expect("a write by the kernel", page, call(ends[0], (long)words, 8, 0, 0, 0, READ), 8);
	}
	words[WORDS / 2] = value(stamp, WORDS / 2);
	words[WORDS - 1] = value(stamp, WORDS - 1);
	model[page].stamp = stamp;
	model[page].flags &= ~LAZY;
}

// The pages at both sides of where a range begins and ends: where a call may reach too far, or not far enough. Before
// a call they are written, after it they are checked.
static void each_edge(struct range r, void (*run)(word page))
{
	const word edges[] = { r.from - 1, r.from, r.to - 1, r.to };

	for (int i = 0; i < 4; i++) {
		if (edges[i] < PAGES) // before the first page is beyond the last one, too
			run(edges[i]);
	}
}

static struct range some_written(void)
{
	struct range r = some();

	if (below(4))
		each_edge(r, put);
	return r;
}

static void op_read(void)
{
	struct range r = some();

	for (word page = r.from; page < r.to && page < r.from + 32; page++)
		check(page);
}

static void op_write(void)
{
	struct range r = some();

	for (word page = r.from; page < r.to && page < r.from + 32; page++)
		put(page);
}

static void op_map(void)
{
	struct range r = some_written();
	long got = call((long)at(r.from), (r.to - r.from) * PAGE, 3, FIXED, -1, 0, MMAP);

	expect("mmap", r.from, got, (word)at(r.from));
	set(r, (struct page){ 0, MAPPED | READABLE | WRITABLE });
	each_edge(r, check);
}

static void op_unmap(void)
{
	struct range r = some_written();

	expect("munmap", r.from, call((long)at(r.from), (r.to - r.from) * PAGE, 0, 0, 0, 0, MUNMAP), 0);
	set(r, (struct page){ 0 });
	each_edge(r, check);
}

// The first page of a range that is not mapped, or its end.
static word first_hole(struct range r)
{
	while (r.from < r.to && model[r.from].flags & MAPPED)
		r.from++;
	return r.from;
}

static void op_protect(void)
{
	static const unsigned int of[] = { 0, READABLE, READABLE | WRITABLE, READABLE | WRITABLE };
	static const int protections[] = { 0, 1, 3, 3 };
	struct range r = some_written();
	word kind = below(4), hole = first_hole(r);
	long got = call((long)at(r.from), (r.to - r.from) * PAGE, protections[kind], 0, 0, 0, MPROTECT);

	expect("mprotect", r.from, got, hole == r.to ? 0 : ENOMEM);
	for (word page = r.from; page < hole; page++)
		model[page].flags = (model[page].flags & (MAPPED | LAZY)) | of[kind];
	each_edge(r, check);
	each_edge(r, put);
}

static void op_advise(void)
{
	struct range r = some_written();
	int lazy = !below(3);
	long got = call((long)at(r.from), (r.to - r.from) * PAGE, lazy ? FREE : DONTNEED, 0, 0, 0, MADVISE);

	expect("madvise", r.from, got, first_hole(r) == r.to ? 0 : ENOMEM);
	for (word page = r.from; page < r.to; page++) {
		if (lazy && model[page].stamp)
			model[page].flags |= LAZY;
		else if (!lazy)
			model[page] = (struct page){ 0, model[page].flags & ~LAZY };
	}
	each_edge(r, check);
}

// Pages of one kind move. They may be of several mappings, which is refused when what is at the place has gone.
static void op_move(void)
{
	struct range from = some(), to;
	word length = 1, most = PAGES / 2;
	long got;

	while (from.from + length < from.to && length < most &&
	       !((model[from.from + length].flags ^ model[from.from].flags) & ~LAZY))
		length++;
	if (!(model[from.from].flags & MAPPED))
		return;
	to.from = below(PAGES - length + 1);
	if (below(2)) // aligned alike
		to.from = to.from / 1024 * 1024 + from.from % 1024;
	to.to = to.from + length;
	if (to.to > PAGES || (to.from < from.from + length && from.from < to.to))
		return;
	from.to = from.from + length;
	each_edge(from, put);
	each_edge(to, put);
	got = call((long)at(from.from), length * PAGE, length * PAGE, MOVED, (long)at(to.from), 0, MREMAP);
	set(to, (struct page){ 0 });
	if (got == EFAULT)
		return;
	expect("mremap", from.from, got, (word)at(to.from));
	for (word page = 0; page < length; page++) {
		model[to.from + page] = model[from.from + page];
		model[from.from + page] = (struct page){ 0 };
	}
	each_edge(from, check);
	each_edge(to, check);
	moved++;
}

static void check_all(void)
{
	for (word page = 0; page < PAGES && well; page++)
		check(page);
}

static void step(void);

// The child goes on by itself, and the parent's memory is then as it was.
static void op_fork(void)
{
	long child;

	if (is_child)
		return;
	child = call(CHILD, 0, 0, 0, 0, 0, CLONE);
	if (!child) {
		is_child = 1;
		for (word left = 1 + below(12); left && well; left--)
			step();
		check_all();
		call(!well, 0, 0, 0, 0, 0, EXIT);
	}
	draw();
	expect("a child", 0, ended(child), 1);
}

// The parent goes on, and a child's memory is then as it was.
static void op_hold(void)
{
	char byte = 0;

	if (is_child)
		return;
	if (held) {
		call(held_ends[1], (long)&byte, 1, 0, 0, 0, WRITE);
		expect("a child that waited", 0, ended(held), 1);
		held = 0;
		return;
	}
	held = call(CHILD, 0, 0, 0, 0, 0, CLONE);
	if (!held) {
		is_child = 1;
		call(held_ends[0], (long)&byte, 1, 0, 0, 0, READ);
		check_all();
		call(!well, 0, 0, 0, 0, 0, EXIT);
	}
}

// The program's own access to a page that it may not use ends it.
static void op_fault(void)
{
	word page = below(PAGES), write = below(2);
	int status = 0;
	long child;

	if (model[page].flags & (write ? WRITABLE : READABLE))
		return;
	child = call(CHILD, 0, 0, 0, 0, 0, CLONE);
	if (!child) {
		volatile word *words = at(page);

		if (write)
			*words = 1;
		else
			(void)*words;
		call(0, 0, 0, 0, 0, 0, EXIT);
	}
	call(child, (long)&status, 0, 0, 0, 0, WAIT);
	expect("an access that may not be", page, status & 127, 11);
}

static void step(void)
{
	static const struct {
		void (*run)(void);
		word weight;
	} ops[] = { { op_read, 30 },  { op_write, 30 }, { op_map, 12 }, { op_unmap, 6 }, { op_protect, 8 },
		    { op_advise, 6 }, { op_move, 12 },  { op_fork, 1 }, { op_hold, 1 },  { op_fault, 1 } };
	word kind = 0, drawn = below(107);

	while (drawn >= ops[kind].weight)
		drawn -= ops[kind++].weight;
	ops[kind].run();
}

PROGRAM(fuzz)
{
	word seed = rounds;

	well = !call((long)ends, 0, 0, 0, 0, 0, PIPE) && !call((long)held_ends, 0, 0, 0, 0, 0, PIPE);
	window = reserve(PAGES * PAGE + ALIGNED);
	call((long)window, PAGES * PAGE + ALIGNED, 0, 0, 0, 0, MUNMAP);
	window = (char *)(((word)window + ALIGNED - 1) & -(word)ALIGNED);
	state = seed;
	for (number = 0; number < rounds && well; number++) {
		step();
		if (number % EPISODE != EPISODE - 1)
			continue;
		check_all(); // and a new begin, as nothing makes a superpage of pages again
		expect("munmap", 0, call((long)window, PAGES * PAGE, 0, 0, 0, 0, MUNMAP), 0);
		set((struct range){ 0, PAGES }, (struct page){ 0 });
	}
	if (held)
		op_hold();
	say_number("fuzz: calls ", number);
	say_number("fuzz: moves ", moved);
	return well && moved;
}
