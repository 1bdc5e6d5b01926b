// SPDX-License-Identifier: MIT
/* What lists a program's mappings, for itself or for who saves it, has its heap as far as the break. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cases.h"
#include "semantics.h"

/* As linux/fs.h has it since Linux 6.11. */
struct query {
	uint64_t size, flags, address, start, end, vma_flags, page_size, offset, inode;
	uint32_t major, minor, name_size, build_id_size;
	uint64_t name, build_id;
};
#define QUERY _IOWR('f', 17, struct query)
#define QUERY_OR_NEXT 0x10

/* A heap that ends within a page of its own: [*start, end returned) of the line that maps has of it. */
static uintptr_t shown(const char *top, uintptr_t *start)
{
	uintptr_t end;

	for (char *line = maps(); line && *line; line = strchr(line, '\n') + 1)
		if (sscanf(line, "%lx-%lx", start, &end) == 2 && *start < (uintptr_t)top && (uintptr_t)top <= end)
			return end;
	fails("the heap is not in maps");
	return 0;
}

static void as_far_as_the_break(void)
{
	char *top = large_heap();
	uintptr_t start, end = shown(top, &start);
	struct query query = { .size = sizeof(query), .address = (uintptr_t)top - 1 };
	int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	char line[64];

	if (end != (uintptr_t)top)
		fails("the heap ends at %#lx in maps, and its break is %p", end, (void *)top);
	snprintf(line, sizeof(line), "%lx-%lx ", start, end);
	if (read_number("/proc/self/smaps", line) == -1)
		fails("smaps has no %s", line);
	if (ioctl(file, QUERY, &query))
		skips("maps cannot be queried");
	if (query.start != start || query.end != end)
		fails("a query finds %#lx-%#lx, maps has %#lx-%#lx", query.start, query.end, start, end);
	query.address = (uintptr_t)top;
	if (!ioctl(file, QUERY, &query) || errno != ENOENT)
		fails("a query finds something behind the break");
	query.flags = QUERY_OR_NEXT;
	if (ioctl(file, QUERY, &query) || query.start <= (uintptr_t)top)
		fails("what is next to the break is %#lx: %s", query.start, strerror(errno));
	close(file);
}

/* What merges with a mapping behind it would be shown with that. */
static void beside_a_mapping(void)
{
	char *top = large_heap() + MIB, *less = top - 64 * KIB;
	uintptr_t start, end;

	if (brk(top))
		fails("brk: %s", strerror(errno));
	fill(top - MIB, MIB, 1);
	if (mmap(top, 4 * PAGE, RW, PLAIN | MAP_FIXED_NOREPLACE, -1, 0) != top || brk(less))
		fails("a mapping right behind the heap: %s", strerror(errno));
	end = shown(less, &start);
	if (end != (uintptr_t)less)
		fails("the heap ends at %#lx in maps, and its break is %p", end, (void *)less);
}

/* As CRIU does: what maps has is mapped again, here at another place, and the kernel is told the break. */
static void restored(void)
{
	char *top = large_heap(), *at;
	uintptr_t start, size = shown(top, &start) - start, break_at;

	at = map(size + 64 * MIB);
	munmap(at, size + 64 * MIB);
	at = (char *)(((uintptr_t)at + HUGE - 1) & ~(HUGE - 1)) + start % HUGE;
	break_at = (uintptr_t)at + ((uintptr_t)top - start);
	if (mmap(at, size, RW, PLAIN | MAP_FIXED, -1, 0) != at)
		fails("mmap: %s", strerror(errno));
	if (prctl(PR_SET_MM, PR_SET_MM_BRK, break_at, 0, 0) || prctl(PR_SET_MM, PR_SET_MM_START_BRK, at, 0, 0))
		skips("PR_SET_MM is refused");
	for (int i = 1; i <= 4; i++)
		if (syscall(SYS_brk, break_at + (uintptr_t)i * MIB) != (long)(break_at + (uintptr_t)i * MIB))
			fails("a heap that was restored does not grow by %d MiB", i);
	expect((char *)break_at, 4 * MIB, 0, "heap that grew");
}

/* The segment of a core file that holds the last byte of the heap: where it ends, and how much of it was written. */
static Elf64_Phdr segment_of(const char *path, uintptr_t last)
{
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	int file = open(path, O_RDONLY | O_CLOEXEC);

	if (file < 0 || read(file, &header, sizeof(header)) != sizeof(header))
		skips("no core file is written");
	for (int i = 0; i < header.e_phnum; i++)
		if (pread(file, &segment, sizeof(segment), (off_t)(header.e_phoff + (unsigned)i * sizeof(segment))) ==
			    sizeof(segment) &&
		    segment.p_type == PT_LOAD && segment.p_vaddr <= last && last < segment.p_vaddr + segment.p_memsz) {
			close(file);
			return segment;
		}
	fails("the heap is not in the core file");
	return segment;
}

static void dumped(void)
{
	char *top = large_heap(), was[256] = "";
	int file = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC), status;
	Elf64_Phdr segment;
	pid_t child;

	if (file < 0 || read(file, was, sizeof(was) - 1) < 0)
		skips("no core files");
	close(file);
	limit(RLIMIT_CORE, 256l << 20);
	write_file("/proc/sys/kernel/core_pattern", "/tmp/core");
	write_file("/proc/sys/kernel/core_uses_pid", "0");
	unlink("/tmp/core");
	child = fork();
	if (child == 0)
		abort();
	waitpid(child, &status, 0);
	write_file("/proc/sys/kernel/core_pattern", "%s", was);
	segment = segment_of("/tmp/core", (uintptr_t)top - 1);
	unlink("/tmp/core");
	if (segment.p_vaddr + segment.p_memsz != (uintptr_t)top || segment.p_filesz > segment.p_memsz)
		fails("the heap ends at %#lx in a core file, and its break is %p", segment.p_vaddr + segment.p_memsz,
		      (void *)top);
}

const struct test semantics_shown[] = {
	{ "a heap is shown as far as its break", as_far_as_the_break, false },
	{ "a heap that shrinks beside a mapping is shown as far as its break", beside_a_mapping, false },
	{ "a heap that was restored from what is shown grows", restored, false },
	{ "a core file has a heap as far as its break", dumped, false },
	{ NULL, NULL, false },
};
