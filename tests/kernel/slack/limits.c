// SPDX-License-Identifier: MIT
/* What counts: bytes, mappings and faults. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "../cases.h"
#include "slack.h"

/* Exactly what was asked for counts, no byte more and none less. */
static void limited(int which, const char *key)
{
	long size = of_process(key) * (long)KIB;

	limit(which, size + 6 * (long)ODD + 2 * (long)PAGE);
	for (int i = 0; i < 6; i++)
		fill(map(ODD), ODD, 1);
	map(PAGE);
	map(PAGE);
	if (mmap(NULL, PAGE, RW, PLAIN, -1, 0) != MAP_FAILED)
		fails("more was granted than the limit is");
}

static void limit_of_addresses(void)
{
	limited(RLIMIT_AS, "VmSize");
}

static void limit_of_data(void)
{
	limited(RLIMIT_DATA, "VmData");
}

static void cactus(void)
{
	long vmas = count_vmas(), faults, size = of_process("VmSize");

	faults = minor_faults();
	for (int i = 0; i < 24; i++)
		fill(map(CACTUS), CACTUS, 1);
	faults = minor_faults() - faults;
	vmas = count_vmas() - vmas;
	size = of_process("VmSize") - size;
	value("cactus.vmas", vmas);
	value("cactus.faults", faults);
	if (size != (long)(24 * CACTUS / KIB))
		fails("%ld KiB are mapped", size);
	if (on() && (vmas > off->cactus_vmas || faults > off->cactus_faults))
		fails("%ld VMAs and %ld faults, with ABH off %ld and %ld", vmas, faults, off->cactus_vmas,
		      off->cactus_faults);
	if (!on()) {
		off->cactus_vmas = vmas;
		off->cactus_faults = faults;
	}
}

/* Many odd mappings are gapless, and so one VMA. */
static void merges(void)
{
	long vmas = count_vmas();

	for (int i = 0; i < 50; i++)
		map(ODD);
	vmas = count_vmas() - vmas;
	value("odd.vmas", vmas);
	if (vmas > 1)
		fails("50 mappings are %ld VMAs", vmas);
}

/* Maps until that is refused; returns how often it was not. */
static long map_up_to(long most)
{
	long n = 0;

	while (n < most && mmap(NULL, PAGE, n % 2 ? PROT_READ : PROT_NONE, PLAIN, -1, 0) != MAP_FAILED)
		n++;
	return n;
}

/*
 * Neighbours that stock merges have holes between them once their slack is gone. They are VMAs as all others: there are
 * never more than there can be without ABH. What needs VMAs only for dropping slack is granted, as they
 * are kept free; and what is refused for it is no more than ABH has caused.
 */
static void limit_of_mappings(void)
{
	enum { N = 60 };
	long before = read_number("/proc/sys/vm/max_map_count", ""), most = count_vmas() + 600, n, vmas;

	for (int i = 0; i < N; i++)
		map(ODD);
	if (write_file("/proc/sys/vm/max_map_count", "%ld", most))
		skips("/proc/sys/vm/max_map_count cannot be written");
	n = map_up_to(2000);
	vmas = count_vmas();
	/* All slack goes, though there is no room for another mapping. */
	if (mlockall(MCL_CURRENT))
		fails("mlockall(): %s", strerror(errno));
	if (slack_kib())
		fails("mlockall() leaves %ld KiB of slack", slack_kib());
	munlockall();
	if (count_vmas() > vmas)
		vmas = count_vmas();
	write_file("/proc/sys/vm/max_map_count", "%ld", before);
	value("max_map_count.granted", n);
	value("max_map_count.vmas", vmas - most);
	if (!on())
		off->granted = n, off->beyond = vmas - most;
	if (vmas - most > off->beyond)
		fails("%ld VMAs beyond the limit, with ABH off %ld", vmas - most, off->beyond);
	if (n < off->granted - 2 * N)
		fails("%ld mappings granted, with ABH off %ld", n, off->granted);
}

/* The same for mappings that move to whole hugepages, and have no slack: stock merges them. */
static void limit_of_moves(void)
{
	enum { N = 60 };
	long before = read_number("/proc/sys/vm/max_map_count", ""), most = count_vmas() + 8 * (N + 40), n, vmas;
	char *room = map(N * 2 * HUGE);

	munmap(room, N * 2 * HUGE);
	if (write_file("/proc/sys/vm/max_map_count", "%ld", most))
		skips("/proc/sys/vm/max_map_count cannot be written");
	for (int i = 0; i < N; i++) {
		char *at = mmap(room + 2 * i * HUGE, HUGE + PAGE, RW, PLAIN | MAP_FIXED_NOREPLACE, -1, 0);

		if (at != room + 2 * i * HUGE)
			fails("mmap(): %s", strerror(errno));
	}
	for (int i = 0; i < N; i++)
		if (mremap(room + 2 * i * HUGE, HUGE + PAGE, 2 * HUGE + PAGE, MREMAP_MAYMOVE) == MAP_FAILED)
			fails("mremap(): %s", strerror(errno));
	n = map_up_to(2000);
	vmas = count_vmas();
	write_file("/proc/sys/vm/max_map_count", "%ld", before);
	value("max_map_count.moved", n);
	if (!on())
		off->moved = n, off->beyond_moved = vmas - most;
	if (vmas - most > off->beyond_moved)
		fails("%ld VMAs beyond the limit, with ABH off %ld", vmas - most, off->beyond_moved);
	if (n < off->moved - 2 * N)
		fails("%ld mappings granted, with ABH off %ld", n, off->moved);
}

static void limit_of_growth(void)
{
	char *at = map(ODD);

	fill(at, ODD, 1);
	limit(RLIMIT_AS, of_process("VmSize") * (long)KIB + (long)HUGE);
	if (mremap(at, ODD, ODD + HUGE + PAGE, MREMAP_MAYMOVE) != MAP_FAILED)
		fails("more was granted than the limit is");
	at = mremap(at, ODD, ODD + HUGE, MREMAP_MAYMOVE);
	if (at == MAP_FAILED)
		fails("mremap() up to the limit: %s", strerror(errno));
	expect(at, ODD, 1, "what was there");
}

const struct test slack_limits[] = {
	{ "RLIMIT_AS is exact", limit_of_addresses, false },
	{ "RLIMIT_DATA is exact", limit_of_data, false },
	{ "RLIMIT_AS and mremap", limit_of_growth, false },
	{ "vm.max_map_count is not exceeded", limit_of_mappings, true },
	{ "vm.max_map_count and mremap", limit_of_moves, true },
	{ "cactusBSSN's mappings", cactus, true },
	{ "odd mappings merge", merges, true },
	{ NULL, NULL, false },
};
