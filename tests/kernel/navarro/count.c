// SPDX-License-Identifier: MIT
/*
 * What experiments count with, and the program that runs the one that it is told.
 *
 * Instructions are of the machine, kernel and program together, by an emulator whose clock counts them (QEMU's -icount
 * shift=0): the time stamp is how many there were. While the machine has nothing to do, or waits for its disk, that
 * clock goes on, so then the number is not known.
 */
#define _GNU_SOURCE
#include "count.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <unistd.h>
#include <x86intrin.h>

static const struct {
	const char *name, *field, *unit;
} counters[] = {
	{ "hugepages_at_fault", "thp_fault_alloc", "hugepages" },
	{ "hugepages_copied", "thp_collapse_alloc", "hugepages" },
	{ "reservations", "thp_reserve_alloc", "hugepages" },
	{ "populated", "thp_reserve_populate", "pages" },
	{ "promoted", "thp_reserve_promote", "hugepages" },
	{ "preempted", "thp_reserve_preempt", "hugepages" },
	{ "scanned", "pgscan_anon", "pages" },
	{ "swapped_out", "pswpout", "pages" },
	{ "moved", "pgmigrate_success", "pages" },
	{ "out_of_memory", "oom_kill", "processes" },
};
enum { COUNTERS = sizeof(counters) / sizeof(counters[0]) };

static struct experiment *known;
static struct {
	long counters[COUNTERS], disk, idle, faults;
	uint64_t instructions;
} before;

void add_experiment(struct experiment *one)
{
	one->next = known;
	known = one;
}

void fail(const char *what)
{
	fprintf(stderr, "navarro: %s: %s\n", what, strerror(errno));
	exit(2);
}

char *map(size_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		fail("mmap()");
	return at;
}

void unmap(char *at, size_t bytes)
{
	if (munmap(at, bytes))
		fail("munmap()");
}

void touch(char *at, size_t bytes, size_t step)
{
	for (size_t i = 0; i < bytes; i += step)
		((volatile char *)at)[i] = 1;
}

void tell(const char *name, long number, const char *unit)
{
	printf("count %s %ld %s\n", name, number, unit);
}

/* The number after a word that begins a line of a file. */
static long field_of(const char *path, const char *field)
{
	char line[256];
	size_t length = strlen(field);
	FILE *file = fopen(path, "re");
	long found = -1;

	while (file && found < 0 && fgets(line, sizeof(line), file))
		if (!strncmp(line, field, length) && (line[length] == ' ' || line[length] == ':'))
			found = strtol(line + length + 1, NULL, 10);
	if (file)
		fclose(file);
	if (found < 0)
		fail(field);
	return found;
}

long smaps_kib(const char *field)
{
	return field_of("/proc/self/smaps_rollup", field);
}

long hugepages(void)
{
	return smaps_kib("AnonHugePages") * KIB / HUGEPAGE;
}

void tell_memory(void)
{
	tell("hugepages", hugepages(), "hugepages");
	tell("resident", smaps_kib("Anonymous"), "KiB");
}

long vmstat(const char *field)
{
	return field_of("/proc/vmstat", field);
}

/*
 * Navarro: a point for each free page, if the aligned extent of the smallest size that it is in is wholly free, two for
 * the next size, three for the largest; of as many as if all memory were free. His sizes are 64 KiB, 512 KiB and 4 MiB;
 * here the largest is 2 MiB. A free block of the buddy allocator is such an extent, or several.
 */
long contiguity(void)
{
	static const struct {
		int order, points;
	} sizes[] = { { 9, 3 }, { 7, 2 }, { 4, 1 } };
	char line[512], *word;
	long points = 0;
	FILE *file = fopen("/proc/buddyinfo", "re");

	if (!file)
		fail("/proc/buddyinfo");
	while (fgets(line, sizeof(line), file)) { /* Node 0, zone DMA 1 0 0 ..., free blocks of each order */
		word = strtok(line, " ");
		for (int i = -3; (word = strtok(NULL, " \n")); i++)
			for (int size = 0; i >= 0 && size < 3; size++)
				if (i >= sizes[size].order) {
					points += (strtol(word, NULL, 10) << i) * sizes[size].points;
					break;
				}
	}
	fclose(file);
	return points * 1000 / (3 * field_of("/proc/meminfo", "MemTotal") * KIB / PAGE);
}

/* Blocks that went to or came from a device. */
static long disk(void)
{
	return vmstat("pgpgin") + vmstat("pgpgout") + vmstat("pswpin") + vmstat("pswpout");
}

/* Hundredths of a second in which the machine had nothing to do: the fourth number of the line. */
static long idle(void)
{
	long found;
	FILE *file = fopen("/proc/stat", "re");

	if (!file || fscanf(file, "cpu %*d %*d %*d %ld", &found) != 1)
		fail("/proc/stat");
	fclose(file);
	return found;
}

/* Of this process, and of those that it waited for. */
static long faults(void)
{
	struct rusage own, theirs;

	if (getrusage(RUSAGE_SELF, &own) || getrusage(RUSAGE_CHILDREN, &theirs))
		fail("getrusage()");
	return own.ru_minflt + theirs.ru_minflt;
}

void begin(void)
{
	for (size_t i = 0; i < COUNTERS; i++)
		before.counters[i] = vmstat(counters[i].field);
	before.disk = disk();
	before.idle = idle();
	before.faults = faults();
	before.instructions = __rdtsc();
}

void end(void)
{
	uint64_t instructions = __rdtsc() - before.instructions;
	long more_faults = faults() - before.faults;

	if (disk() == before.disk && idle() == before.idle)
		tell("instructions", (long)instructions, "instructions");
	else
		printf("count instructions n/a the machine had nothing to do, or its disk had: its clock went on\n");
	tell("page_faults", more_faults, "faults");
	for (size_t i = 0; i < COUNTERS; i++)
		tell(counters[i].name, vmstat(counters[i].field) - before.counters[i], counters[i].unit);
}

void count_use(size_t bytes, void (*use)(char *at, size_t bytes))
{
	char *at = map(bytes);

	use(at, bytes);
	tell_memory();
	unmap(at, bytes);

	begin();
	at = map(bytes);
	use(at, bytes);
	unmap(at, bytes);
	end();
}

int main(int argc, char **argv)
{
	/* What a call costs depends on addresses, so they are not random. */
	if (!(personality(~0ul) & ADDR_NO_RANDOMIZE)) {
		personality(ADDR_NO_RANDOMIZE);
		execv("/proc/self/exe", argv);
		fail("execv()");
	}
	for (struct experiment *one = known; one && argc == 2; one = one->next) {
		if (!strcmp(one->name, argv[1])) {
			one->run();
			return 0;
		}
	}
	fprintf(stderr, "usage: navarro EXPERIMENT\n");
	return 2;
}
