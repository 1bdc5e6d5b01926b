// SPDX-License-Identifier: MIT
/*
 * Breaks up the free memory of the system it runs on, so that no hugepage can
 * be had though most memory is free: a negative control, for the policies in
 * vm-configs/policies/controls.
 *
 * It takes nearly all memory in small pages, keeps one page of each 2 MiB of
 * physical memory, locked, and gives the others back. Then it says "ready" and
 * stays, for the pages would go with it. The kernel is told not to move locked
 * pages when it makes room for a hugepage, as it can't move its own.
 */
#define _GNU_SOURCE /* mlock2() */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include "protocol.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

enum { PAGE = 4096, PAGES = 512 };
/* Arbitrary: free memory at which it stops, whatever is left in one piece, before the kernel looks for a victim. */
#define LEAST_FREE (4ul << 20)
#define FRAMES (1ul << 20) /* of 2 MiB: 2 TiB of physical memory */

static void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf(": %s\n", strerror(errno));
	exit(1);
}

/* A knob below /proc/sys/vm. */
static void set(const char *name, const char *value)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/sys/vm/%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		fail("%s", path);
	close(fd);
}

/* What it is; the caller frees. */
static char *get(const char *name)
{
	char path[64], *value;

	snprintf(path, sizeof(path), "/proc/sys/vm/%s", name);
	value = abh_read_file(path, 256);
	if (!value)
		fail("%s", path);
	return value;
}

static long long free_hugepages(void)
{
	char *table = abh_read_file("/proc/buddyinfo", 4096);
	long long number = table ? abh_free_hugepages(table) : -1;

	if (number < 0)
		fail("/proc/buddyinfo");
	free(table);
	return number;
}

static size_t free_bytes(void)
{
	struct sysinfo info;

	if (sysinfo(&info))
		fail("sysinfo");
	return info.freeram * info.mem_unit;
}

/* Touches small pages until no hugepage is left; returns how many. */
static size_t take(char *memory, size_t most)
{
	size_t taken = 0;

	while (taken < most && free_hugepages() && free_bytes() > LEAST_FREE)
		for (int i = 0; i < PAGES && taken < most; i++)
			memory[PAGE * taken++] = 1;
	return taken;
}

static void give_back(char *memory, size_t pages)
{
	if (pages && madvise(memory, PAGE * pages, MADV_DONTNEED_LOCKED))
		fail("madvise");
}

/* Keeps one page of each physical 2 MiB, gives back all others. */
static void thin(char *memory, size_t pages)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	static bool seen[FRAMES];
	static uint64_t entry[PAGES];
	size_t from = 0; /* the first page after the last one kept */

	if (pagemap < 0)
		fail("/proc/self/pagemap");
	for (size_t i = 0; i < pages; i++) {
		off_t at = (off_t)(((uintptr_t)memory / PAGE + i) * sizeof(*entry));
		uint64_t frame;

		if (i % PAGES == 0 && pread(pagemap, entry, sizeof(entry), at) < (ssize_t)sizeof(*entry))
			fail("/proc/self/pagemap");
		frame = (entry[i % PAGES] & ((UINT64_C(1) << 55) - 1)) / PAGES;
		if (frame >= FRAMES || seen[frame])
			continue;
		seen[frame] = true;
		give_back(memory + PAGE * from, i - from);
		from = i + 1;
	}
	give_back(memory + PAGE * from, pages - from);
	close(pagemap);
}

static long long refused(void)
{
	char *table = abh_read_file("/proc/vmstat", 32768);
	long long number = table ? abh_table_value(table, "thp_fault_fallback") : -1;

	free(table);
	return number;
}

/* Takes hugepages until the kernel refuses one: some are in lists that /proc/buddyinfo does not show. */
static void hold(void)
{
	const size_t huge = (size_t)PAGE * PAGES, most = 256; /* arbitrary */
	char *memory =
		mmap(NULL, huge * most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	long long before = refused();

	if (memory == MAP_FAILED || (madvise(memory, huge * most, MADV_HUGEPAGE) && errno != EINVAL))
		fail("mmap of %zu hugepages", most);
	for (size_t i = 0; i < most && refused() == before; i++)
		memory[huge * i] = 1;
}

int main(void)
{
	size_t pages = (size_t)sysconf(_SC_PHYS_PAGES);
	char *memory =
		mmap(NULL, PAGE * pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *least = get("min_free_kbytes"), *reserve = get("lowmem_reserve_ratio");

	/* In small pages; a kernel that has no others need not be told. */
	if (memory == MAP_FAILED || (madvise(memory, PAGE * pages, MADV_NOHUGEPAGE) && errno != EINVAL))
		fail("mmap of %zu pages", pages);
	set("compact_unevictable_allowed", "0");
	set("compaction_proactiveness", "0"); /* nor make room of its own accord */
	if (mlock2(memory, PAGE * pages, MLOCK_ONFAULT))
		fail("mlock2");
	/* What is kept for the kernel is in one piece too. */
	set("min_free_kbytes", "1024");
	set("lowmem_reserve_ratio", "0 0 0 0");
	pages = take(memory, pages);
	thin(memory, pages);
	set("lowmem_reserve_ratio", reserve);
	set("min_free_kbytes", least);
	set("compact_memory", "1"); /* what can be made of the rest, now, not later */
	hold();
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
