// SPDX-License-Identifier: MIT
/*
 * Chases pointers through a few 4 KB pages of each of many 2 MB regions (paper section 6.1).
 *
 * The pages fit a TLB of 512 small entries; the regions overflow one of 32 huge entries. So this is the
 * pattern that huge pages make slower: every region costs one huge entry, whatever part of it is used.
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SMALL = 4096, HUGE = 2 << 20, LINE = 64, SMALL_ENTRIES = 512 };

struct parameter {
	const char *name;
	uint64_t max, value;
	int given;
};

struct cell {
	struct cell *next;
	uint64_t value;
};

static void parse(struct parameter *table, size_t size, int argc, char **argv)
{
	for (int i = 1; i < argc; i += 2) {
		struct parameter *p = table;
		char *end;

		while (p < table + size && strcmp(p->name, argv[i]))
			p++;
		if (p == table + size)
			errx(2, "unknown option '%s'; expected --regions N --pages N --laps N --seed N", argv[i]);
		errno = 0;
		p->value = argv[i + 1] ? strtoull(argv[i + 1], &end, 10) : 0;
		if (!argv[i + 1] || errno || end == argv[i + 1] || *end || *argv[i + 1] == '-' || p->value > p->max)
			errx(2, "%s: got '%s', expected a whole number up to %" PRIu64, p->name,
			     argv[i + 1] ? argv[i + 1] : "nothing", p->max);
		p->given = 1;
	}
	for (struct parameter *p = table; p < table + size; p++)
		if (!p->given)
			errx(2, "%s is missing; expected --regions N --pages N --laps N --seed N", p->name);
}

static uint64_t draw(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* Anonymous, 2 MB-aligned and without advice, so that the kernel's THP setting alone decides the page size. */
static char *map_regions(uint64_t regions)
{
	char *start = mmap(NULL, (regions + 1) * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (start == MAP_FAILED)
		err(1, "mmap of %" PRIu64 " regions of 2 MB", regions + 1);
	return start + (-(uintptr_t)start & (HUGE - 1));
}

/*
 * One cell per page. Both its page within the region and its line within the page move on with every cell:
 * equal offsets would share one set of the small-page TLB and of the first-level cache, and measure that instead.
 */
static struct cell *place(char *start, uint64_t index, uint64_t pages)
{
	uint64_t page = index % (HUGE / SMALL), line = index % (SMALL / LINE);

	return (struct cell *)(start + index / pages * HUGE + page * SMALL + line * LINE);
}

/* Links all cells into one cycle of random order (Sattolo's shuffle), which no prefetcher can follow. */
static struct cell *link_cells(struct cell **cells, uint64_t count, uint64_t seed)
{
	for (uint64_t i = count - 1; i > 0; i--) {
		uint64_t other = draw(&seed) % i;
		struct cell *swapped = cells[i];

		cells[i] = cells[other];
		cells[other] = swapped;
	}
	for (uint64_t i = 0; i < count; i++) {
		cells[i]->next = cells[(i + 1) % count];
		cells[i]->value = draw(&seed);
	}
	return cells[0];
}

/* Each step is x -> x * 5 + value, so a lap is x -> x * factor + term: the result in closed form, without the walk. */
static uint64_t predict(struct cell **cells, uint64_t count, uint64_t laps)
{
	uint64_t factor = 1, term = 0, x = 0;

	for (uint64_t i = 0; i < count; i++) {
		factor *= 5;
		term = term * 5 + cells[i]->value;
	}
	while (laps--)
		x = x * factor + term;
	return x;
}

int main(int argc, char **argv)
{
	struct parameter arguments[] = { { .name = "--regions", .max = 1 << 16 },
					 { .name = "--pages", .max = HUGE / SMALL },
					 { .name = "--laps", .max = UINT32_MAX },
					 { .name = "--seed", .max = UINT64_MAX } };
	parse(arguments, 4, argc, argv);

	uint64_t regions = arguments[0].value, pages = arguments[1].value, laps = arguments[2].value;
	uint64_t count = regions * pages, x = 0;

	if (count < 2 || count > SMALL_ENTRIES)
		errx(2, "--regions times --pages: got %" PRIu64 ", expected 2 to %d, what a small-page TLB holds",
		     count, SMALL_ENTRIES);
	char *start = map_regions(regions);
	struct cell *cells[SMALL_ENTRIES];

	for (uint64_t i = 0; i < count; i++)
		cells[i] = place(start, i, pages);
	struct cell *cell = link_cells(cells, count, arguments[3].value);

	for (uint64_t step = laps * count; step > 0; step--) {
		x = x * 5 + cell->value;
		cell = cell->next;
	}
	if (x != predict(cells, count, laps))
		errx(1, "walk: got %016" PRIx64 ", expected %016" PRIx64, x, predict(cells, count, laps));
	printf("regions: %" PRIu64 "\npages: %" PRIu64 "\nsteps: %" PRIu64 "\nanswer: %016" PRIx64 "\n", regions, count,
	       laps * count, x);
	return 0;
}
