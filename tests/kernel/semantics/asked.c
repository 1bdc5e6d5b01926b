// SPDX-License-Identifier: MIT
/* What is asked for is what is charged, locked, filled, protected and told. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../cases.h"
#include "semantics.h"

static void populate(void)
{
	long before = of_process("VmRSS"), more;

	map_with(ODD, PLAIN | MAP_POPULATE);
	more = of_process("VmRSS") - before;
	value("populate.rss_kib", more);
	if (more < (long)(ODD / KIB) || more > (long)(ODD / KIB) + 256)
		fails("MAP_POPULATE of %lu KiB took %ld KiB", ODD / KIB, more);
}

static void lock_all(void)
{
	long before, locked;

	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		skips("mlockall is refused");
	before = of_process("VmLck");
	map(ODD);
	locked = of_process("VmLck") - before;
	value("mlockall.mmap_kib", locked);
	if (locked != ODD / KIB)
		fails("mmap of %lu KiB locked %ld KiB", ODD / KIB, locked);
	before += locked;
	grow(ODD);
	locked = of_process("VmLck") - before;
	value("mlockall.heap_kib", locked);
	if (locked != ODD / KIB)
		fails("sbrk of %lu KiB locked %ld KiB", ODD / KIB, locked);
}

/* After memory was mapped and extended, locking all must not take the extensions. */
static void lock_later(void)
{
	long before = of_process("VmSize"), size, locked;

	map(ODD);
	size = of_process("VmSize") - before;
	value("mmap.vmsize_kib", size);
	if (mlockall(MCL_CURRENT))
		skips("mlockall is refused");
	locked = of_process("VmRSS");
	value("mlockall.rss_kib", locked);
	if (locked > before + (long)(ODD / KIB) + 256)
		fails("mlockall made %ld KiB resident of %ld KiB asked for", locked, before + (long)(ODD / KIB));
}

static void nothing_left(void)
{
	static const size_t tails[] = { 0, PAGE, MIB - PAGE, MIB, MIB + PAGE, HUGE - PAGE };
	long before = count_vmas(), size = of_process("VmSize");

	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++)
		for (size_t huge = 0; huge < 3; huge++) {
			size_t bytes = huge * HUGE + tails[i];
			char *at = bytes ? map(bytes) : NULL;

			if (!bytes)
				continue;
			fill(at, bytes, 1);
			if (munmap(at, bytes))
				fails("munmap: %s", strerror(errno));
			if (count_vmas() != before || of_process("VmSize") != size)
				fails("munmap of %zu KiB left something", bytes / KIB);
		}
}

static void rights(void)
{
	char *at = map(2 * HUGE + ODD), *behind;

	if (mprotect(at + HUGE, ODD, PROT_READ))
		fails("mprotect: %s", strerror(errno));
	for (behind = at; behind < at + 2 * HUGE + ODD; behind += PAGE) {
		bool protected = behind >= at + HUGE && behind < at + HUGE + ODD, refused = !can_be_written(behind);

		if (refused != protected)
			fails("page %ld is %s", (long)(behind - at) / (long)PAGE,
			      refused ? "protected" : "not protected");
	}
}

static void lock_heap_later(void)
{
	char *top = large_heap();
	long size = of_process("VmSize"), locked;

	if (mlockall(MCL_CURRENT))
		skips("mlockall is refused");
	locked = of_process("VmLck");
	value("mlockall.heap_later_kib", locked);
	if (behind(top) || locked > size)
		fails("mlockall locked %ld KiB, and %zu bytes are behind the heap", locked, behind(top));
}

/* SELinux takes for the heap what ends at the break at most. */
static void execute_heap(void)
{
	char *top = large_heap();

	if (mprotect(top - MIB, PAGE, RW | PROT_EXEC))
		fails("mprotect: %s", strerror(errno));
	if (behind(top))
		fails("%zu bytes are behind the heap", behind(top));
}

const struct test semantics_asked[] = {
	{ "MAP_POPULATE takes what was asked for", populate, false },
	{ "mlockall(MCL_FUTURE) locks what was asked for", lock_all, false },
	{ "mlockall(MCL_CURRENT) takes no extension", lock_later, false },
	{ "mlockall(MCL_CURRENT) takes nothing behind the heap", lock_heap_later, false },
	{ "a heap that may be executed ends at its break", execute_heap, false },
	{ "munmap leaves nothing", nothing_left, false },
	{ "mprotect changes what was named", rights, false },
	{ NULL, NULL, false },
};
