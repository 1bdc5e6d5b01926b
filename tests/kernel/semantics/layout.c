// SPDX-License-Identifier: MIT
/* Where things lie. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cases.h"
#include "semantics.h"

/* Runs a program; returns how much it wrote. */
static size_t output_of(const char *program, void *output, size_t most)
{
	size_t length;
	ssize_t got;
	int ends[2], status;

	if (pipe(ends))
		fails("pipe: %s", strerror(errno));
	if (vfork() == 0) {
		dup2(ends[1], 1);
		close(ends[0]);
		close(ends[1]);
		execl(program, program, NULL);
		_exit(errno == ENOEXEC ? SKIPPED : 127);
	}
	close(ends[1]);
	for (length = 0; (got = read(ends[0], (char *)output + length, most - length)) > 0; length += (size_t)got)
		;
	close(ends[0]);
	wait(&status);
	if (status == SKIPPED << 8)
		skips("the kernel runs no such programs");
	if (status)
		fails("%s: status %#x", program, (unsigned)status);
	return length;
}

/* Runs a program that tells its addresses (tell.c). */
static void start_program(const char *program, uintptr_t *seen)
{
	if (output_of(program, seen, ADDRESSES * sizeof(*seen)) != ADDRESSES * sizeof(*seen))
		fails("%s did not tell its addresses", program);
}

/* As arch_randomize_brk(): within 1 GiB behind the program, which is small. */
static void start_of_heap(void)
{
	uintptr_t seen[ADDRESSES], first[2] = { 0 };
	int different = 0;

	if (access("/pie", X_OK))
		skips("nothing tells where a heap starts");
	for (int i = 0; i < 40; i++) {
		const char *program = i % 2 ? "/pie" : "/fixed";

		start_program(program, seen);
		if (i < 2)
			first[i] = seen[0];
		different += seen[0] != first[i % 2];
		if (seen[0] < seen[6] || seen[0] > seen[6] + 1024 * MIB + MIB)
			fails("the heap of %s starts at %#lx, and the program is entered at %#lx", program, seen[0],
			      seen[6]);
	}
	if (different < 35)
		fails("of 40 heaps %d start elsewhere than the first", different);
}

/*
 * Programs that write an image of themselves, as GCL does, ask for addresses that are not random: so that the heap
 * begins right behind them.
 */
static void fixed_heap(void)
{
	char line[1024] = "";
	FILE *file = fopen("/proc/self/stat", "re");
	unsigned long start = 0;
	char *word;

	if (!file || !fgets(line, sizeof(line), file) || !(word = strrchr(line, ')')))
		fails("no /proc/self/stat");
	fclose(file);
	for (int field = 2; word && field < 47; field++)
		word = strchr(word + 1, ' ');
	if (!word || sscanf(word, " %lu", &start) != 1 || !start)
		fails("/proc/self/stat: %s", line);
	if (!on())
		off->fixed_heap = start;
	else if (start != off->fixed_heap)
		fails("the heap begins at %#lx, and at %#lx with ABH off", start, off->fixed_heap);
}

#define EXECS 1000

/*
 * How random addresses are, in hundredths of a bit: the sum of the binary entropies of the address's bits. It is no
 * less than the entropy, and can be had from a thousand samples; equal for equal distributions, to some hundredths.
 */
static long measure_bits(const uintptr_t (*seen)[ADDRESSES], int which)
{
	double sum = 0;

	for (int bit = 0; bit < 48; bit++) {
		double ones = 0;

		for (int i = 0; i < EXECS; i++)
			ones += (double)((seen[i][which] >> bit) & 1) / EXECS;
		if (ones > 0 && ones < 1)
			sum -= ones * log2(ones) + (1 - ones) * log2(1 - ones);
	}
	return (long)(100 * sum);
}

static void start_often(const char *program, uintptr_t (*seen)[ADDRESSES])
{
	for (int i = 0; i < EXECS; i++)
		start_program(program, seen[i]);
}

/*
 * With ABH on, no fewer bits than with it off, less what chance does to the estimate. For what is extended fewer are
 * promised: it starts in one of 2^19 hugepages, where stock maps, at one of as many pages as it has slack, and one
 * more.
 */
static void randomness(void)
{
	static const char *const programs[] = { "/pie", "/fixed" };
	static const char *const what[ADDRESSES] = { "heap",  "mmap_page", "mmap_odd", "mmap_tight",
						     "piece", "mmap_4mib", "entry" };
	static const long promised[ADDRESSES] = { 0, 0, 2670, 2010, 1910, 0, 0 };
	static uintptr_t seen[EXECS][ADDRESSES];
	long bits[2][ADDRESSES], failed = 0;

	if (access("/pie", X_OK) || read_number("/proc/sys/kernel/randomize_va_space", "") != 2)
		skips("addresses are not random, or nothing tells them");
	for (int i = 0; i < 2; i++) {
		start_often(programs[i], seen);
		for (int j = 0; j < ADDRESSES; j++) {
			bits[i][j] = measure_bits(seen, j);
			printf("# value %s.aslr.%s.%s_bits %.2f\n", state, programs[i] + 1, what[j],
			       (double)bits[i][j] / 100);
		}
	}
	if (!on()) {
		memcpy(off->bits, bits, sizeof(bits));
		return;
	}
	if (!off->bits[0][0])
		skips("not measured with ABH off");
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < ADDRESSES; j++)
			failed += bits[i][j] < (promised[j] ? promised[j] : off->bits[i][j]) - 20;
	if (failed)
		fails("%ld kinds of addresses have fewer random bits than with ABH off, or than promised", failed);
}

/* Where ThreadSanitizer takes mappings of a program to be; elsewhere it ends it. */
#define APPLICATION 0x7e8000000000ul

static void where_stock_maps(void)
{
	enum { TIMES = 32 };
	uintptr_t seen[ADDRESSES];
	int within = 0;

	if (access("/pie", X_OK))
		skips("nothing tells where mappings lie");
	for (int i = 0; i < TIMES; i++) {
		start_program("/pie", seen);
		within += seen[2] >= APPLICATION && seen[4] >= APPLICATION;
	}
	value("within_application", within);
	if (within != TIMES)
		fails("%d of %d programs have their mappings where stock maps", within, TIMES);
}

/* Whether a program (bits.c) has the heap that it asked for, and the kernel tells of nothing else; and its mappings. */
static bool has_what_it_asked_for(const char *program, char *seen)
{
	size_t length = output_of(program, seen, SEEN - 1);
	uintptr_t start = 0, end = 0;
	char *status, *line;

	seen[length] = '\0';
	status = strstr(seen, "Name:");
	line = strstr(seen, "[heap]");
	if (!status || !line || line > status)
		fails("%s wrote: %s", program, seen);
	while (line > seen && line[-1] != '\n')
		line--;
	sscanf(line, "%lx-%lx", &start, &end);
	status[-1] = '\0';
	return end - start == ASKED && !strstr(status, "Abh");
}

/* Of 32 bits: mapped alike with ABH off and on. The same program of 64 bits is not, or this would show nothing. */
static void narrow_programs(void)
{
	static const char *const programs[] = { "/bits32", "/bits32-pie" };
	static char seen[SEEN];

	for (int i = 0; i < 2; i++) {
		if (!has_what_it_asked_for(programs[i], seen))
			fails("%s has more than it asked for:\n%s", programs[i], seen);
		if (on() && strcmp(seen, off->narrow[i]))
			fails("%s:\n%s\nwith ABH off:\n%s", programs[i], seen, off->narrow[i]);
		strcpy(off->narrow[i], seen);
	}
	if (has_what_it_asked_for("/bits64", seen) == on())
		fails("/bits64:\n%s", seen);
}

/* What a program sees: the same on two kernels that claim to behave alike, if addresses are not random. */
int layout(void)
{
	static const size_t tails[] = { PAGE, MIB - PAGE, MIB, MIB + PAGE, HUGE - PAGE, HUGE };
	char *at[18], *base = sbrk(0);
	size_t n = 0;

	if (!(personality(0xffffffff) & ADDR_NO_RANDOMIZE)) {
		personality(ADDR_NO_RANDOMIZE);
		execl("/proc/self/exe", "semantics", "layout", NULL);
	}
	printf("heap %p\n", (void *)base);
	for (size_t i = 0; i < 6; i++)
		for (size_t huge = 0; huge < 3; huge++, n++) {
			long faults = minor_faults();

			at[n] = map(huge * HUGE + tails[i]);
			fill(at[n], huge * HUGE + tails[i], 1);
			faults = minor_faults() - faults;
			printf("mmap %zu KiB: %p, %ld faults\n", (huge * HUGE + tails[i]) / KIB, (void *)at[n], faults);
		}
	for (size_t i = 0; i < n; i += 2)
		munmap(at[i], tails[i / 3] + (i % 3) * HUGE);
	for (size_t i = 1; i < n; i += 2)
		printf("mremap: %p\n", mremap(at[i], tails[i / 3] + (i % 3) * HUGE, ODD + i * PAGE, MREMAP_MAYMOVE));
	for (size_t i = 0; i < 20; i++) {
		long faults = minor_faults();
		char *more = grow(300 * KIB);

		fill(more, 300 * KIB, 1);
		faults = minor_faults() - faults;
		printf("sbrk: %p, %ld faults\n", (void *)more, faults);
	}
	sbrk(-(intptr_t)(3 * MIB));
	printf("end of the heap %p\n%s", sbrk(0), maps());
	return 0;
}

const struct test semantics_layout[] = {
	{ "a heap starts within 1 GiB behind its program", start_of_heap, false },
	{ "a heap without random addresses begins where it does with ABH off", fixed_heap, true },
	{ "random bits of addresses", randomness, false },
	{ "mappings lie where stock maps", where_stock_maps, false },
	{ "ABH leaves programs of 32 bits alone", narrow_programs, true },
	{ NULL, NULL, false },
};
