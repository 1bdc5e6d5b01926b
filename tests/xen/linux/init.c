// SPDX-License-Identifier: MIT
/*
 * First and only process of a Linux guest, with THP and ABH on: memory calls at random, and what it wrote checked.
 *
 * In each of `rounds` (of the kernel's command line) it maps, writes, discards, protects, moves and gives back parts
 * of some mappings and of its heap, and forks: the child checks all, and writes over some of it. Beside that it has
 * the kernel put page tables into as many superpages of the guest's memory as it can: it holds `hog` MiB in small
 * pages, gives some of each 2 MiB back, fills pipes until nothing else is free, and takes tables: out of these pages,
 * which the kernel maps by superpages that it may write. It frees the tables, and sleeps until those may come back,
 * `spreads` times; with none, its memory stays as it is. khugepaged is stopped meanwhile: it fills the holes of
 * hugepages with the little that the pipes have left, and Linux panics as deadlocked on memory. With `collapse=1` it
 * goes on; what is free is said each time.
 *
 * There is no C library: a static one would make the archive, which the host reads byte by byte, ten times as long.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE 4096UL
#define WORDS (PAGE / 8)
#define SUPERPAGE (512 * PAGE)
#define SLOTS 8
#define SLOT_PAGES 1024UL /* two hugepages */
#define HEAP SLOTS        /* the slot that is the heap, of which a part is there */
#define MOST_HOG 1024UL   /* MiB */
/* Pages of each 2 MiB that are given back: of all memory the kernel has to have 1 MiB left. */
#define LOOSE 16UL
#define MOST_PIPES 512
#define MOST_ENVIRONMENT 64
#define STOOD_MS 400 /* Xen forgets that a superpage was given up after 16 times its next wait, which is 20 ms */

#define SYS_read 0
#define SYS_write 1
#define SYS_open 2
#define SYS_close 3
#define SYS_mmap 9
#define SYS_mprotect 10
#define SYS_munmap 11
#define SYS_brk 12
#define SYS_mremap 25
#define SYS_madvise 28
#define SYS_pause 34
#define SYS_nanosleep 35
#define SYS_fork 57
#define SYS_execve 59
#define SYS_exit 60
#define SYS_wait4 61
#define SYS_fcntl 72
#define SYS_mkdir 83
#define SYS_sysinfo 99
#define SYS_mount 165
#define SYS_pipe2 293

#define READ_WRITE 3
#define READ_ONLY 1
#define ANONYMOUS 0x22 /* and private */
#define NORESERVE 0x4000
#define FIXED 0x10
#define MAYMOVE 1
#define MOVE_TO 2
#define EFAULT 14
#define DONTNEED 4
#define DONTFORK 10
#define NOHUGEPAGE 15
#define SET_PIPE_SIZE 1031
#define PIPE_PAGES 256UL /* the most that it may hold */

static uint64_t state, rounds, hog, spreads, collapse, maps, writes, checks, forks, moves, tables;
static char *slots[SLOTS + 1];
/* What each page holds: every word is made of it. 0: zeros. */
static uint32_t tags[SLOTS + 1][SLOT_PAGES];
static uint64_t heap_pages;
static uint64_t *hogged;
static uint32_t hog_tags[MOST_HOG * 256];

static long call(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 asm("r10") = d, r8 asm("r8") = e, r9 asm("r9") = f;
	long result;

	asm volatile("syscall"
		     : "=a"(result)
		     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
		     : "rcx", "r11", "memory");
	return result;
}

static long call3(long number, long a, long b, long c)
{
	return call(number, a, b, c, 0, 0, 0);
}

/* %s, and %lu of 64 bits. */
static void print(const char *format, ...)
{
	char text[256], digits[20];
	size_t length = 0, count;
	va_list values;

	va_start(values, format);
	for (; *format && length < sizeof(text) - 24; format++) {
		if (*format != '%') {
			text[length++] = *format;
		} else if (*++format == 's') {
			for (const char *word = va_arg(values, const char *); *word && length < sizeof(text) - 24;
			     word++)
				text[length++] = *word;
		} else {
			uint64_t number = va_arg(values, uint64_t);

			format++;
			count = 0;
			do
				digits[count++] = '0' + number % 10;
			while (number /= 10);
			while (count)
				text[length++] = digits[--count];
		}
	}
	va_end(values);
	call3(SYS_write, 1, (long)text, length);
}

static void __attribute__((noreturn)) rest(void)
{
	for (;;)
		call3(SYS_pause, 0, 0, 0);
}

static bool child;

static void __attribute__((noreturn)) failure(const char *what, uint64_t number)
{
	print("ABH test linux failure %s %lu\n", what, number);
	if (child)
		call3(SYS_exit, 1, 0, 0);
	rest();
}

static void check(bool holds, const char *what, uint64_t number)
{
	if (!holds)
		failure(what, number);
}

/* Of the system: a negative number of a few is an error. */
static char *mapped(long address, const char *what)
{
	check(address < -4095 || address > 0, what, -address);
	return (char *)address;
}

/* xorshift64 (Marsaglia 2003) */
static uint64_t draw(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

static uint64_t word(uint32_t tag, uint64_t index)
{
	return tag ? tag * UINT64_C(0x9e3779b97f4a7c15) + index : 0;
}

static void write_page(unsigned int slot, uint64_t page)
{
	uint64_t *at = (uint64_t *)(slots[slot] + page * PAGE);
	uint32_t tag = draw(UINT32_MAX) + 1;

	for (uint64_t i = 0; i < WORDS; i++)
		at[i] = word(tag, i);
	tags[slot][page] = tag;
	writes++;
}

static void check_page(unsigned int slot, uint64_t page)
{
	const volatile uint64_t *at = (uint64_t *)(slots[slot] + page * PAGE);

	for (uint64_t i = 0; i < WORDS; i++)
		check(at[i] == word(tags[slot][page], i), "a page does not hold what was written: slot and page",
		      slot * 10000 + page);
	checks++;
}

static uint64_t pages_of(unsigned int slot)
{
	return slot == HEAP ? heap_pages : SLOT_PAGES;
}

static void check_all(void)
{
	for (unsigned int slot = 0; slot <= SLOTS; slot++)
		for (uint64_t page = 0; page < pages_of(slot); page++)
			check_page(slot, page);
}

static void new_slot(unsigned int slot)
{
	if (slots[slot])
		check(!call3(SYS_munmap, (long)slots[slot], SLOT_PAGES * PAGE, 0), "munmap", slot);
	slots[slot] = mapped(call(SYS_mmap, 0, SLOT_PAGES * PAGE, READ_WRITE, ANONYMOUS, -1, 0), "mmap");
	for (uint64_t page = 0; page < SLOT_PAGES; page++)
		tags[slot][page] = 0;
	maps++;
}

static void resize_heap(void)
{
	uint64_t pages = draw(SLOT_PAGES);
	long end = (long)slots[HEAP] + pages * PAGE;

	check(call3(SYS_brk, end, 0, 0) == end, "brk", pages);
	for (uint64_t page = heap_pages; page < pages; page++)
		tags[HEAP][page] = 0;
	heap_pages = pages;
}

/* What is several mappings by now, as the kernel sees it, cannot be moved whole: it stays. */
static void move_slot(unsigned int slot)
{
	long length = SLOT_PAGES * PAGE;
	char *to = mapped(call(SYS_mmap, 0, length, 0, ANONYMOUS | NORESERVE, -1, 0), "mmap");
	long moved = call(SYS_mremap, (long)slots[slot], length, length, MAYMOVE | MOVE_TO, (long)to, 0);

	if (moved == -EFAULT) {
		check(!call3(SYS_munmap, (long)to, length, 0), "munmap", slot);
		return;
	}
	slots[slot] = mapped(moved, "mremap");
	moves++;
}

/* Zeros: given back and had again, or mapped anew in its place. */
static void discard(unsigned int slot, uint64_t from, uint64_t pages)
{
	long at = (long)(slots[slot] + from * PAGE);

	if (draw(2) || slot == HEAP)
		check(!call3(SYS_madvise, at, pages * PAGE, DONTNEED), "madvise", slot);
	else
		mapped(call(SYS_mmap, at, pages * PAGE, READ_WRITE, ANONYMOUS | FIXED, -1, 0), "mmap over");
	for (uint64_t page = from; page < from + pages; page++)
		tags[slot][page] = 0;
}

static void protect(unsigned int slot, uint64_t from, uint64_t pages)
{
	long at = (long)(slots[slot] + from * PAGE);

	check(!call3(SYS_mprotect, at, pages * PAGE, READ_ONLY), "mprotect", slot);
	check_page(slot, from);
	check(!call3(SYS_mprotect, at, pages * PAGE, READ_WRITE), "mprotect back", slot);
}

static void fork_one(void)
{
	int status = 0;
	long pid = call3(SYS_fork, 0, 0, 0), ended;

	check(pid >= 0, "fork", -pid);
	if (!pid) {
		child = true;
		check_all();
		for (int i = 0; i < 100; i++)
			write_page(draw(SLOTS), draw(SLOT_PAGES));
		check_all();
		call3(SYS_exit, 0, 0, 0);
	}
	/* Meanwhile the pages that both have. */
	for (int i = 0; i < 100; i++)
		write_page(draw(SLOTS), draw(SLOT_PAGES));
	ended = call(SYS_wait4, pid, (long)&status, 0, 0, 0, 0);
	check(ended == pid && !status, "the child ended with", status);
	forks++;
}

static void churn_one(void)
{
	unsigned int slot = draw(SLOTS + 1);
	uint64_t there = pages_of(slot), from, pages, what = draw(32);

	if (slot == HEAP && what < 4)
		resize_heap();
	else if (what == 0)
		new_slot(slot);
	else if (what == 1)
		move_slot(slot);
	there = pages_of(slot);
	if (!there)
		return;
	from = draw(there);
	pages = 1 + draw(there - from);
	if (what >= 4 && what < 6)
		discard(slot, from, pages);
	else if (what == 6)
		protect(slot, from, pages);
	else if (what < 16)
		for (uint64_t page = from; page < from + pages && page < from + 64; page++)
			write_page(slot, page);
	else
		for (uint64_t page = from; page < from + pages && page < from + 64; page++)
			check_page(slot, page);
}

static void check_hog(void)
{
	for (uint64_t page = 0; page < hog * 256; page++)
		check(((volatile uint64_t *)hogged)[page * WORDS] == word(hog_tags[page], page),
		      "a small page does not hold what was written:", page);
}

static void write_hog(uint64_t page)
{
	hog_tags[page] = draw(UINT32_MAX) + 1;
	hogged[page * WORDS] = word(hog_tags[page], page);
}

static uint64_t free_pages(void)
{
	uint64_t info[16]; /* struct sysinfo: its sixth word is freeram */

	check(!call3(SYS_sysinfo, (long)info, 0, 0), "sysinfo", 0);
	return info[5] / PAGE;
}

static void set(const char *path, const char *value)
{
	long file = call3(SYS_open, (long)path, 1, 0);
	size_t length = 0;

	while (value[length])
		length++;
	check(file >= 0 && call3(SYS_write, file, (long)value, length) == (long)length, path, -file);
	call3(SYS_close, file, 0, 0);
}

static uint64_t get(const char *path)
{
	char text[24];
	long file = call3(SYS_open, (long)path, 0, 0), length;
	uint64_t number = 0;

	check(file >= 0, path, -file);
	length = call3(SYS_read, file, (long)text, sizeof(text));
	check(length > 0, path, -length);
	for (long i = 0; i < length && text[i] >= '0' && text[i] <= '9'; i++)
		number = 10 * number + (text[i] - '0');
	call3(SYS_close, file, 0, 0);
	return number;
}

static bool has_abh(void)
{
	static char text[2 * PAGE];
	long file = call3(SYS_open, (long)"/proc/self/status", 0, 0);
	long length = call3(SYS_read, file, (long)text, sizeof(text));

	call3(SYS_close, file, 0, 0);
	for (long i = 0; i < length; i++) {
		const char *wanted = "\nAbhSurplus:";
		long at = i;

		while (at < length && *wanted && text[at] == *wanted)
			at++, wanted++;
		if (!*wanted)
			return true;
	}
	return false;
}

/* As long as none are allowed there is no khugepaged: the kernel waits for its end. */
static void set_hugepages(const char *allowed)
{
	set("/sys/kernel/mm/transparent_hugepage/enabled", allowed);
	/* The kernel has raised it, with THP to 5 % of all: pages would be reclaimed while pipes are filled. */
	set("/proc/sys/vm/min_free_kbytes", "1024");
}

static int pipes[MOST_PIPES][2];
static uint64_t piped;

/*
 * What a pipe holds cannot be moved, as a page table cannot: the kernel takes both out of the largest piece that is
 * free. All pipes are made before the first is filled, as each takes some pages that follow each other.
 */
static void fill_pipes(uint64_t left)
{
	static char page[PAGE];
	uint64_t there = free_pages(), most = there > left ? (there - left) / PIPE_PAGES + 1 : 0;

	check(most <= MOST_PIPES, "too much to fill pipes with", there);
	for (piped = 0; piped < most; piped++) {
		check(!call3(SYS_pipe2, (long)pipes[piped], 0, 0), "pipe", piped);
		check(call3(SYS_fcntl, pipes[piped][1], SET_PIPE_SIZE, PIPE_PAGES * PAGE) > 0, "pipe's size", piped);
	}
	for (uint64_t i = 0; i < most * PIPE_PAGES && free_pages() > left; i++)
		check(call3(SYS_write, pipes[i / PIPE_PAGES][1], (long)page, PAGE) == (long)PAGE, "write to pipe", i);
}

static void close_pipes(void)
{
	while (piped--)
		for (int end = 0; end < 2; end++)
			check(!call3(SYS_close, pipes[piped][end], 0, 0), "close of pipe", piped);
}

static void say_collapsed(const char *when)
{
	print("ABH test linux %s its sleep free pages %lu collapsed %lu\n", when, free_pages(),
	      get("/sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed"));
}

/* Page tables in as many superpages as the small pages lie in, and away again. */
static void spread_tables(void)
{
	uint64_t number = hog / 2, length = number * SUPERPAGE, first = draw(512 / LOOSE);
	long sleep[2] = { 0, STOOD_MS * 1000000L };

	/* One of each 2 MiB after the other, for those that follow each other on the kernel's lists to be of others. */
	for (uint64_t i = 0; i < number * LOOSE; i++) {
		uint64_t page = i % number * 512 + i / number * (512 / LOOSE) + first;

		check(!call3(SYS_madvise, (long)(hogged + page * WORDS), PAGE, DONTNEED), "madvise", page);
	}
	if (!collapse)
		set_hugepages("never");
	fill_pipes(number * LOOSE);
	for (uint64_t spread = 0; spread < spreads; spread++) {
		char *sparse = mapped(call(SYS_mmap, 0, length, READ_WRITE, ANONYMOUS | NORESERVE, -1, 0),
				      "mmap of sparse memory");

		check(!call3(SYS_madvise, (long)sparse, length, NOHUGEPAGE), "madvise", 0);
		for (uint64_t i = 0; i < number; i++)
			check(!((volatile char *)sparse)[i * SUPERPAGE], "memory that was never written has something",
			      i);
		tables += number;
		check(!call3(SYS_munmap, (long)sparse, length, 0), "munmap of sparse memory", 0);
		if (collapse)
			say_collapsed("before");
		call3(SYS_nanosleep, (long)sleep, 0, 0);
		if (collapse)
			say_collapsed("after");
	}
	close_pipes();
	if (!collapse)
		set_hugepages("always");
	for (uint64_t i = 0; i < number * LOOSE; i++)
		write_hog(i % number * 512 + i / number * (512 / LOOSE) + first);
	check_hog();
}

static uint64_t argument(char **environment, const char *name, uint64_t otherwise)
{
	for (; *environment; environment++) {
		const char *word = *environment, *wanted = name;
		uint64_t value = 0;

		while (*wanted && *word == *wanted)
			word++, wanted++;
		if (*wanted || *word++ != '=')
			continue;
		for (; *word >= '0' && *word <= '9'; word++)
			value = 10 * value + (*word - '0');
		return value;
	}
	return otherwise;
}

/*
 * What a process has of ABH is decided when it is started, and by whether THP is on: of so little memory a kernel has
 * turned that off, whatever its command line says. So this program turns both on, and starts itself again.
 */
static void start_with_abh(char **environment)
{
	static char *arguments[] = { "/init", NULL }, *more[MOST_ENVIRONMENT + 2];
	size_t length = 0;

	if (!argument(environment, "again", 0)) {
		call3(SYS_mkdir, (long)"/sys", 0755, 0);
		check(!call(SYS_mount, (long)"sys", (long)"/sys", (long)"sysfs", 0, 0, 0), "no sysfs", 0);
		call3(SYS_mkdir, (long)"/proc", 0755, 0);
		check(!call(SYS_mount, (long)"proc", (long)"/proc", (long)"proc", 0, 0, 0), "no procfs", 0);
		set_hugepages("always");
		set("/sys/kernel/mm/abh/enabled", "always");
		for (; environment[length]; length++) {
			check(length < MOST_ENVIRONMENT, "a long environment", length);
			more[length] = environment[length];
		}
		more[length] = "again=1";
		check(false, "execve", -call3(SYS_execve, (long)"/init", (long)arguments, (long)more));
	}
	check(has_abh(), "no ABH", 0);
}

static void set_up(void)
{
	set("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", "100");
	/* What may not be used grows to 3 MiB else, where tables are taken out of what other memory lies in. */
	set("/proc/sys/vm/watermark_boost_factor", "0");
	/* And what the processor's own list has is not free: it keeps as little as it can. */
	set("/proc/sys/vm/percpu_pagelist_high_fraction", "1000");
	for (unsigned int slot = 0; slot < SLOTS; slot++)
		new_slot(slot);
	slots[HEAP] = (char *)((call3(SYS_brk, 0, 0, 0) + PAGE - 1) & -PAGE);
	hogged = (uint64_t *)mapped(call(SYS_mmap, 0, hog << 20, READ_WRITE, ANONYMOUS, -1, 0), "mmap of small pages");
	check(!call3(SYS_madvise, (long)hogged, hog << 20, NOHUGEPAGE), "madvise", 0);
	check(!call3(SYS_madvise, (long)hogged, hog << 20, DONTFORK), "madvise", 0);
	for (uint64_t page = 0; page < hog * 256; page++)
		write_hog(page);
}

void __attribute__((noreturn, used)) start(long *stack)
{
	char **environment = (char **)(stack + 1 + stack[0] + 1);

	rounds = argument(environment, "rounds", 20);
	hog = argument(environment, "hog", 128);
	spreads = argument(environment, "spreads", 1);
	collapse = argument(environment, "collapse", 0);
	state = argument(environment, "seed", 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
	check(hog <= MOST_HOG, "too much to hold", hog);
	start_with_abh(environment);
	set_up();
	for (uint64_t round = 0; round < rounds; round++) {
		for (int i = 0; i < 60; i++)
			churn_one();
		fork_one();
		if (spreads)
			spread_tables();
		if (round % 8 == 0)
			print("ABH test linux at round %lu\n", round);
	}
	check_all();
	check_hog();
	print("ABH test linux maps %lu writes %lu checks %lu forks %lu moves %lu tables %lu\n", maps, writes, checks,
	      forks, moves, tables);
	print("ABH test linux success\n");
	rest();
}

asm(".globl _start\n"
    "_start: mov %rsp, %rdi\n"
    "	and $-16, %rsp\n"
    "	call start\n");
