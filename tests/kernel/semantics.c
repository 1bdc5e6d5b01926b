// SPDX-License-Identifier: MIT
/*
 * What must hold for a program under alignment-based hugepages, one case each; the fuzzer tests the memory calls
 * themselves. Each case runs in a program of its own, as what ABH does for a program is decided when it starts: first
 * with ABH off, then with it on for everybody. A kernel that has no ABH runs each once, as stock: there the cases must
 * hold as well, or they ask too much.
 *
 * A case returns (it holds), fails, or skips with a reason. Output is TAP; lines "# value" are what was measured.
 *
 * "semantics layout" prints what a program sees of its memory, for comparing two kernels, and "semantics booted POLICY"
 * tells whether the switch stands there; they take no part in the cases.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define KNOBS "/sys/kernel/mm/abh/"
#define KNOB KNOBS "enabled"
#define GROUP "/sys/fs/cgroup/semantics"
#define KIB 1024ul
#define MIB (1024 * KIB)
#define PAGE 4096ul
#define HUGE (2 * MIB)
/* An odd size whose tail ABH extends: 1.25 MiB becomes 2 MiB. */
#define ODD (1280 * KIB)
#define CACTUS (4632 * KIB) /* cactusBSSN's: upstream's alignment made it up to 600 % slower */
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define SKIPPED 4
#define ADDRESSES 4 /* that "tell" writes */

static const char *state; /* "stock", "off" or "on" */

static bool on(void)
{
	return !strcmp(state, "on");
}

/* Outcomes */

__attribute__((format(printf, 1, 2), noreturn)) static void fails(const char *format, ...)
{
	va_list words;

	va_start(words, format);
	printf("# ");
	vprintf(format, words);
	printf("\n");
	va_end(words);
	fflush(stdout);
	_exit(1);
}

__attribute__((noreturn)) static void skips(const char *reason)
{
	printf("# skipped: %s\n", reason);
	fflush(stdout);
	_exit(SKIPPED);
}

static void value(const char *name, long number)
{
	printf("# value %s.%s %ld\n", state, name, number);
}

/* The system */

static long read_number(const char *path, const char *key)
{
	char line[256];
	long found = -1;
	FILE *file = fopen(path, "re");

	while (file && found < 0 && fgets(line, sizeof(line), file))
		if (!strncmp(line, key, strlen(key)))
			found = strtol(line + strlen(key) + strspn(line + strlen(key), ": \t"), NULL, 10);
	if (file)
		fclose(file);
	return found;
}

static int write_file(const char *path, const char *format, ...)
{
	char text[128];
	va_list words;
	ssize_t done = -1;
	int length, file = open(path, O_WRONLY | O_CLOEXEC);

	va_start(words, format);
	length = vsnprintf(text, sizeof(text), format, words);
	va_end(words);
	if (file >= 0) {
		done = write(file, text, (size_t)length);
		close(file);
	}
	return done == length ? 0 : -1;
}

static long minor_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

/* Lines of /proc/self/maps, without allocating memory meanwhile. */
static char *maps(void)
{
	static char texts[2][1 << 17];
	static int turn;
	char *text = texts[turn ^= 1];
	size_t length = 0;
	ssize_t got;
	int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	while ((got = read(file, text + length, sizeof(texts[0]) - 1 - length)) > 0)
		length += (size_t)got;
	text[length] = '\0';
	close(file);
	return text;
}

static long count_vmas(void)
{
	long n = 0;

	for (const char *at = maps(); (at = strchr(at, '\n')); at++)
		n++;
	return n;
}

/* The mapping that holds an address. */
static bool find_vma(const void *address, uintptr_t *start, uintptr_t *end)
{
	for (char *line = maps(); line && *line; line = strchr(line, '\n') + 1)
		if (sscanf(line, "%lx-%lx", start, end) == 2 && *start <= (uintptr_t)address &&
		    (uintptr_t)address < *end)
			return true;
	return false;
}

static char *map(size_t bytes, int flags)
{
	char *got = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);

	if (got == MAP_FAILED)
		fails("mmap of %zu KiB: %s", bytes / KIB, strerror(errno));
	return got;
}

static void *grow(size_t bytes)
{
	void *at = sbrk((intptr_t)bytes);

	if (at == (void *)-1)
		fails("sbrk of %zu KiB: %s", bytes / KIB, strerror(errno));
	return at;
}

static void fill(char *at, size_t bytes, int seed)
{
	for (size_t i = 0; i < bytes; i += PAGE)
		*(volatile long *)(at + i) = (long)i + seed;
}

static void expect(const char *at, size_t bytes, int seed, const char *where)
{
	for (size_t i = 0; i < bytes; i += PAGE)
		if (*(const volatile long *)(at + i) != (seed ? (long)i + seed : 0))
			fails("%s: wrong contents at offset %#zx", where, i);
}

/* How many mappings a process gets before it is refused. */
static long count_maps(size_t bytes, int flags, long most)
{
	long n = 0;

	while (n < most && mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED)
		n++;
	return n;
}

/* Limits: what stock grants is granted. */

static void at_least(long got, long stock, const char *what)
{
	value(what, got);
	if (got < stock)
		fails("%s: %ld granted, stock grants %ld", what, got, stock);
}

static void exactly(long got, long stock, const char *what)
{
	value(what, got);
	if (got != stock)
		fails("%s: %ld granted, stock grants %ld", what, got, stock);
}

static void limit(int which, long bytes)
{
	struct rlimit limit = { (rlim_t)bytes, (rlim_t)bytes };

	if (setrlimit(which, &limit))
		fails("setrlimit: %s", strerror(errno));
}

static void rlimit_as(void)
{
	long size = read_number("/proc/self/status", "VmSize") * (long)KIB;

	limit(RLIMIT_AS, size + 10 * (long)ODD);
	at_least(count_maps(ODD, ANON, 100), 10, "RLIMIT_AS.mappings");
}

static void rlimit_data(void)
{
	long size = read_number("/proc/self/status", "VmData") * (long)KIB;

	limit(RLIMIT_DATA, size + 10 * (long)ODD);
	at_least(count_maps(ODD, ANON, 100), 10, "RLIMIT_DATA.mappings");
}

static void rlimit_data_heap(void)
{
	long size = read_number("/proc/self/status", "VmData") * (long)KIB, n = 0;

	limit(RLIMIT_DATA, size + 10 * (long)ODD);
	while (n < 100 && sbrk(ODD) != (void *)-1)
		n++;
	exactly(n, 10, "RLIMIT_DATA.heap");
}

/* By single pages, so that nearly all are of the surplus. */
static void rlimit_as_heap(void)
{
	long size = read_number("/proc/self/status", "VmSize") * (long)KIB, n = 0;

	grow(ODD + 100);
	limit(RLIMIT_AS, size + (long)(ODD + 101 * PAGE));
	while (n < 1000 && sbrk(PAGE) != (void *)-1)
		n++;
	exactly(n, 100, "RLIMIT_AS.heap_pages");
}

static void rlimit_as_mremap(void)
{
	long size;
	char *at = map(ODD, ANON);

	size = read_number("/proc/self/status", "VmSize") * (long)KIB;
	limit(RLIMIT_AS, size + (long)ODD);
	if (mremap(at, ODD, 2 * ODD, MREMAP_MAYMOVE) == MAP_FAILED)
		fails("mremap up to the limit: %s", strerror(errno));
}

static void overcommit(void)
{
	long free, n;

	if (write_file("/proc/sys/vm/overcommit_memory", "2"))
		skips("/proc/sys/vm/overcommit_memory cannot be written");
	/* Strict: what is mapped counts. A part is kept back for the administrator and for this process. */
	write_file("/proc/sys/vm/overcommit_kbytes", "300000");
	write_file("/proc/sys/vm/admin_reserve_kbytes", "0");
	write_file("/proc/sys/vm/user_reserve_kbytes", "0");
	free = (read_number("/proc/meminfo", "CommitLimit") - read_number("/proc/meminfo", "Committed_AS")) * (long)KIB;
	n = count_maps(ODD, ANON, 100000);
	write_file("/proc/sys/vm/overcommit_memory", "0");
	at_least(n, free / (long)ODD - 2, "overcommit.mappings"); /* 2: other processes change it meanwhile */
}

static void map_count(void)
{
	long n, before = read_number("/proc/sys/vm/max_map_count", "");

	if (write_file("/proc/sys/vm/max_map_count", "%ld", count_vmas() + 40))
		skips("/proc/sys/vm/max_map_count cannot be written");
	/* Stock merges neighbours, so that any number of them are one. */
	n = count_maps(ODD, ANON, 200);
	write_file("/proc/sys/vm/max_map_count", "%ld", before);
	at_least(n, 200, "max_map_count.mappings");
}

static void enter_group(const char *max, const char *swap)
{
	write_file("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
	if (mkdir(GROUP, 0755) && errno != EEXIST)
		skips("no memory control group");
	if (write_file(GROUP "/memory.max", "%s", max) || write_file(GROUP "/memory.swap.max", "%s", swap) ||
	    write_file(GROUP "/cgroup.procs", "0"))
		skips("the memory control group cannot be set");
}

static void memory_group(void)
{
	enter_group("16M", "0");
	/* 12.5 MiB in a group of 16: more than one extended mapping would still do, all of them would not. */
	for (int i = 0; i < 10; i++)
		fill(map(ODD, ANON), ODD, 1);
}

static void memory_group_heap(void)
{
	char *base = grow(0);

	enter_group("16M", "0");
	for (int i = 0; i < 40; i++)
		fill(grow(320 * KIB), 320 * KIB, 1);
	for (int i = 0; i < 40; i++)
		expect(base + (size_t)i * 320 * KIB, 320 * KIB, 1, "heap");
}

static void pressure(void)
{
	char *at[20];

	if (read_number("/proc/meminfo", "SwapTotal") <= 0)
		skips("no swap");
	enter_group("16M", "max");
	for (int i = 0; i < 20; i++)
		fill(at[i] = i % 2 ? grow(ODD) : map(ODD, ANON), ODD, i + 1);
	for (int i = 0; i < 20; i++)
		expect(at[i], ODD, i + 1, "after swapping");
}

/* What is asked for is what is charged, locked, filled and told. */

static void populate(void)
{
	long before = read_number("/proc/self/status", "VmRSS"), more;

	map(ODD, ANON | MAP_POPULATE);
	more = read_number("/proc/self/status", "VmRSS") - before;
	value("populate.rss_kib", more);
	if (more < (long)(ODD / KIB) || more > (long)(ODD / KIB) + 256)
		fails("MAP_POPULATE of %lu KiB took %ld KiB", ODD / KIB, more);
}

static void lock_all(void)
{
	long before, locked;

	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		skips("mlockall is refused");
	before = read_number("/proc/self/status", "VmLck");
	map(ODD, ANON);
	locked = read_number("/proc/self/status", "VmLck") - before;
	value("mlockall.mmap_kib", locked);
	if (locked != ODD / KIB)
		fails("mmap of %lu KiB locked %ld KiB", ODD / KIB, locked);
	before += locked;
	grow(ODD);
	locked = read_number("/proc/self/status", "VmLck") - before;
	value("mlockall.heap_kib", locked);
	if (locked != ODD / KIB)
		fails("sbrk of %lu KiB locked %ld KiB", ODD / KIB, locked);
}

/* After memory was mapped and extended, locking all must not take the extensions. */
static void lock_later(void)
{
	long before = read_number("/proc/self/status", "VmSize"), size, locked;

	map(ODD, ANON);
	size = read_number("/proc/self/status", "VmSize") - before;
	value("mmap.vmsize_kib", size);
	if (mlockall(MCL_CURRENT))
		skips("mlockall is refused");
	locked = read_number("/proc/self/status", "VmRSS");
	value("mlockall.rss_kib", locked);
	if (locked > before + (long)(ODD / KIB) + 256)
		fails("mlockall made %ld KiB resident of %ld KiB asked for", locked, before + (long)(ODD / KIB));
}

static void excluded(const char *what, size_t bytes, int protection, int flags, int file)
{
	uintptr_t start, end;
	char *got = mmap(NULL, bytes, protection, flags, file, 0);

	if (got == MAP_FAILED)
		fails("%s: %s", what, strerror(errno));
	if (!find_vma(got, &start, &end))
		fails("%s: not found", what);
	if (start != (uintptr_t)got || end != (uintptr_t)got + bytes)
		fails("%s of %#zx bytes at %p is %#lx-%#lx", what, bytes, (void *)got, start, end);
	munmap(got, bytes);
}

static void exclusions(void)
{
	/* A protection that nothing else has: so they merge with nothing. */
	int file = memfd_create("file", MFD_CLOEXEC), both = PROT_READ | PROT_WRITE | PROT_EXEC;

	if (ftruncate(file, ODD))
		fails("memfd: %s", strerror(errno));
	excluded("shared anonymous memory", ODD, both, MAP_SHARED | MAP_ANONYMOUS, -1);
	excluded("a shared file", ODD, both, MAP_SHARED, file);
	excluded("a private file", ODD, both, MAP_PRIVATE, file);
	excluded("a stack", ODD, both, ANON | MAP_STACK, -1);
	excluded("MAP_NORESERVE", ODD, both, ANON | MAP_NORESERVE, -1);
	excluded("MAP_GROWSDOWN", 16 * PAGE, both, ANON | MAP_GROWSDOWN, -1);
	excluded("PROT_NONE", ODD, PROT_NONE, ANON, -1);
}

static void small_heap(void)
{
	uintptr_t start, end;
	char *base = grow(64 * KIB), *top = sbrk(0);

	fill(base, 64 * KIB, 1);
	if (!find_vma(base, &start, &end))
		fails("the heap is not there");
	value("small_heap.kib_beyond", (long)(end - (uintptr_t)top) / (long)KIB);
	if (end != (((uintptr_t)top + PAGE - 1) & ~(PAGE - 1)))
		fails("a small heap ends at %#lx, and was asked to end at %p", end, (void *)top);
}

static void heap_reads_zero(void)
{
	char *base = grow(5 * MIB + 3 * PAGE);
	size_t size = 5 * MIB + 3 * PAGE, back = 2 * MIB + 5 * PAGE;

	fill(base, size, 7);
	madvise((void *)(((uintptr_t)base + size - back / 2) & ~(PAGE - 1)), 64 * PAGE, MADV_PAGEOUT);
	if (brk(base + size - back))
		fails("the heap cannot shrink");
	if (sbrk(0) != base + size - back)
		fails("the heap ends at %p, expected %p", sbrk(0), (void *)(base + size - back));
	if (grow(back) != base + size - back)
		fails("the heap grew elsewhere");
	expect(base, size - back, 7, "kept heap");
	expect(base + size - back, back, 0, "heap taken again");
}

static void small_pages_read_zero(void)
{
	size_t size = 5 * MIB, back = 2 * MIB + 5 * PAGE;
	char *base;

	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		skips("no transparent hugepages to do without");
	base = grow(size);
	fill(base, size, 7);
	if (brk(base + size - back) || brk(base + size))
		fails("brk: %s", strerror(errno));
	expect(base, size - back, 7, "kept heap");
	expect(base + size - back, back, 0, "heap taken again");
}

static void nothing_left(void)
{
	static const size_t tails[] = { 0, PAGE, MIB - PAGE, MIB, MIB + PAGE, HUGE - PAGE };
	long before = count_vmas(), size = read_number("/proc/self/status", "VmSize");

	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++)
		for (size_t huge = 0; huge < 3; huge++) {
			size_t bytes = huge * HUGE + tails[i];
			char *at = bytes ? map(bytes, ANON) : NULL;

			if (!bytes)
				continue;
			fill(at, bytes, 1);
			if (munmap(at, bytes))
				fails("munmap: %s", strerror(errno));
			if (count_vmas() != before || read_number("/proc/self/status", "VmSize") != size)
				fails("munmap of %zu KiB left something", bytes / KIB);
		}
}

static void rights(void)
{
	char *at = map(2 * HUGE + ODD, ANON), *behind;
	char byte;
	int ends[2];

	if (pipe(ends) || mprotect(at + HUGE, ODD, PROT_READ))
		fails("mprotect: %s", strerror(errno));
	/* Reading from a pipe into a page tells whether it can be written, without a signal. */
	for (behind = at; behind < at + 2 * HUGE + ODD; behind += PAGE) {
		bool protected = behind >= at + HUGE && behind < at + HUGE + ODD, refused;

		if (write(ends[1], "", 1) != 1)
			fails("pipe: %s", strerror(errno));
		refused = read(ends[0], behind, 1) < 0;
		if (refused && read(ends[0], &byte, 1) != 1)
			fails("pipe: %s", strerror(errno));
		if (refused != protected)
			fails("page %ld is %s", (long)(behind - at) / (long)PAGE,
			      refused ? "protected" : "not protected");
	}
}

/* Runs a program that tells its addresses (tell.c). */
static void start_program(const char *program, uintptr_t *seen)
{
	int ends[2];

	if (pipe(ends))
		fails("pipe: %s", strerror(errno));
	if (vfork() == 0) {
		dup2(ends[1], 1);
		close(ends[0]);
		close(ends[1]);
		execl(program, program, NULL);
		_exit(127);
	}
	close(ends[1]);
	if (read(ends[0], seen, ADDRESSES * sizeof(*seen)) != ADDRESSES * sizeof(*seen))
		fails("%s did not tell its addresses", program);
	close(ends[0]);
	wait(NULL);
}

/* The heap's surplus: what lies between the end that the program knows and the real one. */

static uintptr_t page_after(const void *top)
{
	return ((uintptr_t)top + PAGE - 1) & ~(PAGE - 1);
}

static size_t behind(const void *top)
{
	uintptr_t start, end;

	if (!find_vma((const char *)top - 1, &start, &end))
		fails("the heap is not there");
	return end - page_after(top);
}

/* A heap whose surplus is nearly a hugepage, if there is one; returns its top, which is the start of a page. */
static char *large_heap(void)
{
	uintptr_t top = ((uintptr_t)sbrk(0) + 8 * MIB) & ~(HUGE - 1);

	top += 4 * PAGE;
	if (brk((void *)top))
		fails("brk: %s", strerror(errno));
	fill((char *)top - 4 * MIB, 4 * MIB, 1);
	if (behind((void *)top) != (on() ? HUGE - 4 * PAGE : 0))
		fails("%zu bytes behind a heap that ends at %#lx", behind((void *)top), top);
	return (char *)top;
}

static void heap_is_extended(void)
{
	char *top = large_heap();

	for (int i = 0; i < 100; i++) {
		top = (char *)grow(33 * PAGE + 100) + 33 * PAGE + 100;
		if (sbrk(0) != top)
			fails("sbrk(0) is %p, expected %p", sbrk(0), (void *)top);
		if (on() ? (page_after(top) + behind(top)) % HUGE : behind(top))
			fails("%zu bytes behind %p", behind(top), (void *)top);
	}
	/* When it shrinks, it keeps less than a hugepage. */
	if (brk(top -= 5 * MIB + PAGE))
		fails("brk: %s", strerror(errno));
	if (on() ? (page_after(top) + behind(top)) % HUGE || behind(top) >= HUGE : behind(top))
		fails("%zu bytes behind %p, after it shrank", behind(top), (void *)top);
}

static void lock_heap_later(void)
{
	char *top = large_heap();
	long size = read_number("/proc/self/status", "VmSize") - (long)(behind(top) / KIB), locked;

	if (mlockall(MCL_CURRENT))
		skips("mlockall is refused");
	locked = read_number("/proc/self/status", "VmLck");
	value("mlockall.heap_later_kib", locked);
	if (behind(top) || locked > size)
		fails("mlockall locked %ld KiB, and %zu bytes are behind the heap", locked, behind(top));
}

static void heap_gets_hugepages(void)
{
	long faults;
	size_t size = 0;

	if (read_number("/sys/kernel/mm/transparent_hugepage/enabled", "[always]") < 0)
		skips("transparent hugepages are not always on");
	for (faults = minor_faults(); size < 16 * MIB; size += 132 * KIB)
		fill(grow(132 * KIB), 132 * KIB, 1);
	faults = minor_faults() - faults;
	value("heap.faults_of_16_mib", faults);
	if (on() && faults > (long)(HUGE / PAGE) + 32)
		fails("%ld faults", faults);
}

static void heap_is_not_split(void)
{
	char *base = grow(0);
	long splits = read_number("/proc/vmstat", "thp_split_pmd");

	/* From the second hugepage on: the first holds what was there when the heap was small. */
	for (int i = 0; i < 40; i++)
		fill(grow(33 * PAGE), 33 * PAGE, 1);
	for (int i = 0; i < 200; i++) {
		char *top = base + 2 * HUGE + (size_t)(i * 7919 % 4096) * 512;

		if (brk(top))
			fails("brk: %s", strerror(errno));
		fill((char *)(((uintptr_t)top & ~(PAGE - 1)) - 16 * PAGE), 16 * PAGE, i + 2);
	}
	splits = read_number("/proc/vmstat", "thp_split_pmd") - splits;
	value("heap.splits", splits);
	if (on() && splits)
		fails("%ld hugepages were split", splits);
}

/* Memory behind the heap is named, with the heap's last page in front of it. */
#define REFUSED(call, number)                                                                                          \
	do {                                                                                                           \
		at = large_heap() - PAGE;                                                                              \
		errno = 0;                                                                                             \
		if ((long)(call) != -1 || errno != (number))                                                           \
			fails("%s: %s, expected: %s", #call, strerror(errno), strerror(number));                       \
		if (find_vma(at + PAGE, &start, &end))                                                                 \
			fails("%s left something behind the heap", #call);                                             \
	} while (0)

static void heap_surplus_is_nobodys(void)
{
	uintptr_t start, end;
	char *top, *at;

	REFUSED(madvise(at, 2 * PAGE, MADV_DONTNEED), ENOMEM);
	REFUSED(madvise(at, 2 * PAGE, MADV_HUGEPAGE), ENOMEM);
	REFUSED(mprotect(at, 2 * PAGE, PROT_READ), ENOMEM);
	REFUSED(mlock(at, 2 * PAGE), ENOMEM);
	munlockall();
	REFUSED(mremap(at + PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE), EFAULT);
	top = large_heap();
	if (mmap(top, PAGE, PROT_READ, ANON | MAP_FIXED_NOREPLACE, -1, 0) != top)
		fails("MAP_FIXED_NOREPLACE right behind the heap: %s", strerror(errno));
	if (!brk(top + 2 * PAGE))
		fails("the heap grew over a mapping");
	munmap(top, PAGE);
	top = large_heap();
	if (mmap(top + PAGE, PAGE, PROT_READ, ANON, -1, 0) != top + PAGE)
		fails("a hint behind the heap was not taken");
	munmap(top + PAGE, PAGE);
	top = large_heap();
	munmap(top - PAGE, PAGE);
	if (find_vma(top, &start, &end))
		fails("munmap() of the heap's end left something behind it");
}

/* A mapping that grows down keeps a gap of 256 pages to what is below it: to the heap, not to its surplus. */
static void grows_down_to_heap(void)
{
	char *top = large_heap(), *at = top + HUGE + MIB - 64 * PAGE;

	if (mmap(at, PAGE, PROT_READ | PROT_WRITE, ANON | MAP_GROWSDOWN | MAP_FIXED_NOREPLACE, -1, 0) != at)
		fails("MAP_GROWSDOWN: %s", strerror(errno));
	for (; at > top + 257 * PAGE; at -= PAGE)
		*(volatile char *)at = 1;
}

/* What lies behind the heap stays away from it as far as ever: a page, or the gap of what grows down. */
static void heap_stops_at_mapping(void)
{
	char *top = large_heap(), *at = top + 64 * PAGE;

	for (int i = 0; i < 2; i++) {
		if (brk(at) ||
		    mmap(at, PAGE, PROT_READ, ANON | MAP_FIXED_NOREPLACE | (i ? MAP_GROWSDOWN : 0), -1, 0) != at)
			fails("a mapping right behind the heap: %s", strerror(errno));
		if (brk(top))
			fails("brk: %s", strerror(errno));
		if (!brk(at))
			fails("the heap grew up to a mapping that grows %s", i ? "down" : "nowhere");
		if (!!brk(at - PAGE) != i)
			fails("the heap %s below a mapping that grows %s", i ? "grew" : "did not grow",
			      i ? "down" : "nowhere");
		munmap(at, PAGE);
	}
}

static void heap_of_two_kinds(void)
{
	char *top = large_heap();
	int status;
	pid_t child;

	/* Not all of the heap goes to the child; what it has there must not be in its way. */
	if (madvise(top - 2 * MIB, MIB, MADV_DONTFORK))
		fails("MADV_DONTFORK: %s", strerror(errno));
	child = fork();
	if (child == 0) {
		expect(grow(5 * MIB), 5 * MIB, 0, "child's heap");
		_exit(0);
	}
	waitpid(child, &status, 0);
	if (status)
		fails("child: status %#x", (unsigned)status);
}

static void heap_with_a_file(void)
{
	char *top = large_heap(), *at = top - MIB;
	int file = memfd_create("file", MFD_CLOEXEC);

	/* What the program put there instead goes when the heap shrinks. */
	if (ftruncate(file, MIB) || mmap(at, MIB, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) != at)
		fails("a file over the heap: %s", strerror(errno));
	if (brk(at - PAGE) || brk(top + MIB))
		fails("brk: %s", strerror(errno));
	fill(at, 2 * MIB, 1);
	/* And so does a hole. */
	munmap(at, MIB);
	if (brk(at - PAGE) || brk(top + MIB))
		fails("brk after a hole: %s", strerror(errno));
	expect(at, 2 * MIB, 0, "heap after a hole");
}

/* Advice, names, policies and handlers go with memory that is given back. */
static void heap_taken_again_is_fresh(void)
{
	char *top = large_heap();
	int status;
	pid_t child;

	if (madvise(top - MIB, MIB, MADV_WIPEONFORK) || brk(top - MIB) || brk(top))
		fails("brk after MADV_WIPEONFORK: %s", strerror(errno));
	fill(top - MIB, MIB, 3);
	child = fork();
	if (child == 0) {
		expect(top - MIB, MIB, 3, "child's heap");
		_exit(0);
	}
	waitpid(child, &status, 0);
	if (status)
		fails("child: status %#x", (unsigned)status);
	if (mlock(top - MIB, MIB) || brk(top - MIB) || brk(top))
		fails("brk after mlock: %s", strerror(errno));
	if (read_number("/proc/self/status", "VmLck"))
		fails("%ld KiB are still locked", read_number("/proc/self/status", "VmLck"));
}

static void heap_with_a_policy(void)
{
	unsigned long nodes = 1;
	char *top = large_heap();
	int mode = -1;

	if (syscall(SYS_mbind, top - MIB, MIB, 2 /* MPOL_BIND */, &nodes, 8 * sizeof(nodes), 0))
		skips("no memory policies");
	if (brk(top - MIB) || brk(top))
		fails("brk: %s", strerror(errno));
	if (syscall(SYS_get_mempolicy, &mode, NULL, 0, top - MIB / 2, 2 /* MPOL_F_ADDR */) || mode)
		fails("heap taken again has policy %d", mode);
	expect(top - MIB, MIB, 0, "heap");
}

static void heap_with_a_handler(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	char *top = large_heap();
	int handle = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (handle < 0)
		skips("no userfaultfd");
	range.range.start = (uintptr_t)top - 4 * MIB;
	range.range.len = 4 * MIB;
	if (ioctl(handle, UFFDIO_API, &api) || ioctl(handle, UFFDIO_REGISTER, &range))
		fails("UFFDIO_REGISTER: %s", strerror(errno));
	madvise(top - MIB, MIB, MADV_DONTNEED);
	if (brk(top - MIB) || brk(top))
		fails("brk: %s", strerror(errno));
	alarm(20); /* a fault that nobody handles never ends */
	expect(top - MIB, MIB, 0, "heap");
}

static void heap_with_segment(void)
{
	char *top = large_heap(), *at = top - MIB;
	int id = shmget(IPC_PRIVATE, MIB, IPC_CREAT | 0600);

	if (id < 0)
		skips("no System V shared memory");
	if (shmat(id, at, SHM_REMAP) != at)
		fails("SHM_REMAP: %s", strerror(errno));
	shmctl(id, IPC_RMID, NULL);
	if (brk(top + MIB) || shmdt(at))
		fails("shmdt: %s", strerror(errno));
	fill(top, MIB, 1);
	if (brk(at) || brk(top + MIB))
		fails("brk: %s", strerror(errno));
	expect(at, 2 * MIB, 0, "heap");
	/* And one where nothing is but the surplus. */
	top = large_heap();
	id = shmget(IPC_PRIVATE, 4 * PAGE, IPC_CREAT | 0600);
	if (shmat(id, top + PAGE, 0) != top + PAGE)
		fails("shmat() behind the heap: %s", strerror(errno));
	shmctl(id, IPC_RMID, NULL);
}

static void heap_moves(void)
{
	char *top = large_heap();

	/* As for restoring a program: the break is elsewhere from now on. */
	if (prctl(PR_SET_MM, PR_SET_MM_BRK, top + 32 * MIB, 0, 0))
		skips("PR_SET_MM is refused");
	if (behind(top))
		fails("something is left behind the heap's old end");
	if (sbrk(0) != top || syscall(SYS_brk, top + 33 * MIB) != (long)(top + 33 * MIB))
		fails("the heap does not grow from its new end");
	fill(top + 32 * MIB, MIB, 1);
}

static void start_of_heap(void)
{
	uintptr_t seen[ADDRESSES], first = 0, different = 0;

	if (access("/pie", X_OK) || !on())
		skips("ABH is off, or nothing tells where a heap starts");
	write_file(KNOBS "heap_offset", "0");
	for (int i = 0; i < 20; i++) {
		start_program(i % 2 ? "/pie" : "/fixed", seen);
		if (seen[0] % HUGE) {
			write_file(KNOBS "heap_offset", "1");
			fails("a heap starts at %#lx", seen[0]);
		}
		first = i ? first : seen[0];
		different += seen[0] != first;
	}
	write_file(KNOBS "heap_offset", "1");
	if (different < 15)
		fails("%lu of 20 heaps start elsewhere than the first", different);
}

/* What ABH tells of itself */

static long counter(const char *name)
{
	return read_number("/proc/vmstat", name);
}

/* Something counts, with ABH on, and does not, with it off. */
#define COUNTS(name, call)                                                                                             \
	do {                                                                                                           \
		long before = counter(name);                                                                           \
		call;                                                                                                  \
		if (on() ? counter(name) <= before : counter(name) != before)                                          \
			fails(name " was %ld, and is %ld after %s", before, counter(name), #call);                     \
	} while (0)

static void counters(void)
{
	char *top, *at;

	if (counter("abh_heap_extended") < 0)
		skips("the kernel has no such counters");
	COUNTS("abh_heap_small", grow(16 * PAGE));
	COUNTS("abh_heap_extended", top = large_heap());
	if (read_number("/proc/self/status", "AbhSurplus") != (on() ? (long)(behind(top) / KIB) : -1))
		fails("AbhSurplus is %ld", read_number("/proc/self/status", "AbhSurplus"));
	COUNTS("abh_heap_kept", brk(top - MIB));
	COUNTS("abh_heap_kept_pages", brk(top - 3 * MIB / 2));
	COUNTS("abh_heap_cleared_pages", brk(top - MIB));
	top = large_heap();
	at = top + 64 * PAGE;
	COUNTS("abh_heap_dropped", mmap(at, PAGE, PROT_READ, ANON | MAP_FIXED_NOREPLACE, -1, 0));
	COUNTS("abh_heap_no_room", brk(top + PAGE));
	munmap(at, PAGE);
	top = large_heap();
	madvise(top - MIB, MIB, MADV_NOHUGEPAGE);
	COUNTS("abh_heap_not_plain", brk(top - MIB / 2));
}

/* Of limits and locks there is no way back; so these are in a program of their own. */
static void counters_of_limits(void)
{
	char *top;

	if (counter("abh_heap_extended") < 0)
		skips("the kernel has no such counters");
	large_heap();
	if (write_file("/proc/sys/vm/overcommit_memory", "2"))
		skips("/proc/sys/vm/overcommit_memory cannot be written");
	COUNTS("abh_heap_overcommit", grow(3 * MIB));
	write_file("/proc/sys/vm/overcommit_memory", "0");
	/* Enough for what is asked, and not for a hugepage's rest. */
	top = large_heap();
	limit(RLIMIT_DATA,
	      read_number("/proc/self/status", "VmData") * (long)KIB - (long)behind(top) + (long)(HUGE + 16 * PAGE));
	COUNTS("abh_heap_no_memory", grow(HUGE));
	mlockall(MCL_FUTURE);
	COUNTS("abh_heap_locked", grow(PAGE));
}

#define TRACE "/sys/kernel/tracing/"

static void tracepoint(void)
{
	char line[512], expected[64];
	bool found = false;
	char *top;
	FILE *file;

	if (write_file(TRACE "events/abh/abh_heap/enable", "1"))
		skips("the kernel has no such tracepoint");
	top = large_heap();
	write_file(TRACE "events/abh/abh_heap/enable", "0");
	snprintf(expected, sizeof(expected), "brk=%#lx end=%#lx abh_heap_extended", (uintptr_t)top,
		 (uintptr_t)top + behind(top));
	file = fopen(TRACE "trace", "re");
	while (file && fgets(line, sizeof(line), file))
		found |= !!strstr(line, expected);
	if (found != on())
		fails("%s: %s", expected, found ? "traced" : "not traced");
}

static void arithmetic(void)
{
	char line[256];
	long passed = 0;
	FILE *file = fopen("/sys/kernel/debug/kunit/abh/results", "re");

	if (!file)
		skips("the kernel has no KUnit test of ABH");
	while (fgets(line, sizeof(line), file)) {
		if (strstr(line, "not ok"))
			fails("%s", line);
		passed += !!strstr(line, "ok ");
	}
	fclose(file);
	value("kunit.lines", passed);
	if (passed < 10)
		fails("%ld tests of KUnit passed", passed);
}

/* Who gets it */

#ifndef PR_SET_ABH
#define PR_SET_ABH 0x41424800
#define PR_GET_ABH 0x41424801
#endif
enum { BY_DEFAULT, WANTED, UNWANTED, CHOICES };

/* Whether a program has ABH that is run by the child of a process which chose. */
static bool chosen(int choice)
{
	int status;
	pid_t child = fork(), grandchild;

	if (child == 0) {
		if (prctl(PR_SET_ABH, choice, 0, 0, 0))
			_exit(3);
		grandchild = fork();
		if (grandchild == 0) {
			execl("/proc/self/exe", "semantics", "member", NULL);
			_exit(3);
		}
		waitpid(grandchild, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
	}
	waitpid(child, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
		fails("prctl(PR_SET_ABH, %d): status %#x", choice, (unsigned)status);
	return !WEXITSTATUS(status);
}

static int member(void)
{
	return read_number("/proc/self/status", "AbhSurplus") < 0;
}

/* Whether the kernel began with this policy. */
static int booted(const char *policy)
{
	char expected[32];
	char line[64] = "";
	FILE *file = fopen(KNOB, "re");

	snprintf(expected, sizeof(expected), "[%s]", policy);
	if (file && fgets(line, sizeof(line), file) && strstr(line, expected)) {
		printf("booted with abh=%s\n", policy);
		return 0;
	}
	printf("booted with %s, expected %s\n", line, expected);
	return 1;
}

static void choice(void)
{
	static const char *const policies[] = { "never", "opt-in", "always" };
	static const bool expected[][CHOICES] = { { false, false, false },
						  { false, true, false },
						  { true, true, false } };
	bool right = true;

	if (prctl(PR_GET_ABH, 0, 0, 0, 0) < 0)
		skips("the kernel lets no program choose");
	for (int i = 0; i < 3; i++) {
		if (write_file(KNOB, "%s", policies[i]))
			fails("%s: %s is refused", KNOB, policies[i]);
		for (int j = 0; j < CHOICES; j++)
			if (chosen(j) != expected[i][j]) {
				printf("# %s, and choice %d: %d\n", policies[i], j, !expected[i][j]);
				right = false;
			}
	}
	write_file(KNOB, on() ? "always" : "never");
	if (!right)
		fails("a program has ABH that should not, or the other way round");
	if (!prctl(PR_SET_ABH, CHOICES, 0, 0, 0) || !prctl(PR_SET_ABH, 0, 1, 0, 0) || !prctl(PR_GET_ABH, 1, 0, 0, 0))
		fails("prctl() takes what means nothing");
	if (prctl(PR_SET_ABH, UNWANTED, 0, 0, 0) || prctl(PR_GET_ABH, 0, 0, 0, 0) != UNWANTED)
		fails("PR_GET_ABH does not tell what was chosen");
}

/* Address space layout */

static void cactus(void)
{
	long vmas = count_vmas(), faults = minor_faults(), size = read_number("/proc/self/status", "VmSize");

	for (int i = 0; i < 24; i++)
		fill(map(CACTUS, ANON), CACTUS, 1);
	value("cactus.vmas", count_vmas() - vmas);
	value("cactus.faults", minor_faults() - faults);
	value("cactus.vmsize_kib", read_number("/proc/self/status", "VmSize") - size);
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

/* With ABH on, no fewer bits than with it off, less what chance does to the estimate. */
static void randomness(void)
{
	static const char *const programs[] = { "/pie", "/fixed" };
	static const char *const what[ADDRESSES] = { "heap", "mmap_page", "mmap_odd", "mmap_4mib" };
	static uintptr_t seen[EXECS][ADDRESSES];
	long bits[2][ADDRESSES], off[2][ADDRESSES], failed = 0;
	int file;

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
	file = open("/tmp/bits", on() ? O_RDONLY : O_CREAT | O_WRONLY | O_TRUNC, 0600);
	if (!on()) {
		if (write(file, bits, sizeof(bits)) != sizeof(bits))
			fails("/tmp/bits: %s", strerror(errno));
		return;
	}
	if (read(file, off, sizeof(off)) != sizeof(off))
		skips("not measured with ABH off");
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < ADDRESSES; j++)
			failed += bits[i][j] < off[i][j] - 20;
	if (failed)
		fails("%ld kinds of addresses have fewer random bits than with ABH off", failed);
}

/* Others that watch memory */

static void merging(void)
{
	char *at;

	if (write_file("/sys/kernel/mm/ksm/run", "1"))
		skips("no KSM");
	write_file("/sys/kernel/mm/ksm/pages_to_scan", "10000");
	write_file("/sys/kernel/mm/ksm/sleep_millisecs", "1");
	at = map(ODD, ANON);
	for (size_t i = 0; i < ODD; i += PAGE)
		memset(at + i, 0x5a, PAGE);
	if (madvise(at, ODD, MADV_MERGEABLE))
		fails("MADV_MERGEABLE: %s", strerror(errno));
	for (int tries = 0; tries < 100 && read_number("/sys/kernel/mm/ksm/pages_sharing", "") < 100; tries++)
		usleep(100000);
	value("ksm.pages_sharing", read_number("/sys/kernel/mm/ksm/pages_sharing", ""));
	if (read_number("/sys/kernel/mm/ksm/pages_sharing", "") < 100)
		fails("KSM merges nothing");
	for (size_t i = 0; i < ODD; i += PAGE)
		at[i + 17] = (char)(i / PAGE);
	for (size_t i = 0; i < ODD; i += PAGE)
		if (at[i + 17] != (char)(i / PAGE) || at[i + 16] != 0x5a)
			fails("page %zu was lost by merging", i / PAGE);
}

static void *touch(void *at)
{
	*(volatile char *)at;
	return NULL;
}

static void user_faults(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_copy copy = { .len = PAGE };
	int handle = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	static char page[PAGE] __attribute__((aligned(4096))) = "from the handler";
	struct uffd_msg message;
	char *at;

	if (handle < 0)
		skips("no userfaultfd");
	at = map(ODD, ANON);
	range.range.start = (uintptr_t)at;
	range.range.len = ODD;
	if (ioctl(handle, UFFDIO_API, &api) || ioctl(handle, UFFDIO_REGISTER, &range))
		fails("UFFDIO_REGISTER: %s", strerror(errno));
	/* Every page asks for itself: none comes with a hugepage. */
	for (size_t i = 0; i < ODD; i += 64 * PAGE) {
		pthread_t thread;

		copy.dst = (uintptr_t)at + i;
		copy.src = (uintptr_t)page;
		if (pthread_create(&thread, NULL, touch, at + i))
			fails("no thread");
		if (read(handle, &message, sizeof(message)) != sizeof(message) ||
		    message.event != UFFD_EVENT_PAGEFAULT || (message.arg.pagefault.address & ~(PAGE - 1)) != copy.dst)
			fails("the fault at page %zu was not told", i / PAGE);
		if (ioctl(handle, UFFDIO_COPY, &copy))
			fails("UFFDIO_COPY: %s", strerror(errno));
		pthread_join(thread, NULL);
		if (strcmp(at + i, page))
			fails("page %zu does not hold what the handler gave", i / PAGE);
	}
}

static void copy_on_write(void)
{
	char *heap = grow(4 * MIB + ODD), *at = map(ODD, ANON);
	int status;
	pid_t child;

	fill(heap, 4 * MIB + ODD, 1);
	fill(at, ODD, 2);
	child = fork();
	if (child == 0) {
		expect(heap, 4 * MIB + ODD, 1, "child's heap");
		fill(heap + 3 * MIB, MIB, 3);
		fill(at, ODD, 4);
		if (sbrk(-(intptr_t)ODD) == (void *)-1 || grow(ODD) != heap + 4 * MIB)
			fails("the child's heap does not shrink and grow");
		expect(heap + 4 * MIB, ODD, 0, "child's heap, taken again");
		_exit(0);
	}
	waitpid(child, &status, 0);
	if (status)
		fails("child: status %#x", (unsigned)status);
	expect(heap, 4 * MIB + ODD, 1, "parent's heap");
	expect(at, ODD, 2, "parent's mapping");
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "RLIMIT_AS", rlimit_as },
	{ "RLIMIT_AS and mremap", rlimit_as_mremap },
	{ "RLIMIT_DATA", rlimit_data },
	{ "RLIMIT_DATA and the heap", rlimit_data_heap },
	{ "RLIMIT_AS and the heap", rlimit_as_heap },
	{ "strict overcommit", overcommit },
	{ "vm.max_map_count", map_count },
	{ "memory control group", memory_group },
	{ "memory control group and the heap", memory_group_heap },
	{ "swapping under pressure", pressure },
	{ "MAP_POPULATE takes what was asked for", populate },
	{ "mlockall(MCL_FUTURE) locks what was asked for", lock_all },
	{ "mlockall(MCL_CURRENT) takes no extension", lock_later },
	{ "mlockall(MCL_CURRENT) takes nothing behind the heap", lock_heap_later },
	{ "exclusions have the size asked for", exclusions },
	{ "a small heap is not extended", small_heap },
	{ "heap taken again reads zero", heap_reads_zero },
	{ "heap of small pages taken again reads zero", small_pages_read_zero },
	{ "a large heap ends with a hugepage", heap_is_extended },
	{ "a large heap gets hugepages", heap_gets_hugepages },
	{ "a heap that shrinks and grows splits no hugepage", heap_is_not_split },
	{ "what lies behind the heap is not there", heap_surplus_is_nobodys },
	{ "MAP_GROWSDOWN grows down to the heap", grows_down_to_heap },
	{ "a heap stops where it did at what is behind it", heap_stops_at_mapping },
	{ "MADV_DONTFORK of a part of the heap", heap_of_two_kinds },
	{ "a file over the heap, and a hole in it", heap_with_a_file },
	{ "heap taken again is as fresh heap", heap_taken_again_is_fresh },
	{ "a NUMA policy of the heap", heap_with_a_policy },
	{ "userfaultfd and the heap", heap_with_a_handler },
	{ "System V shared memory over the heap", heap_with_segment },
	{ "PR_SET_MM moves the heap", heap_moves },
	{ "a heap starts with a hugepage, anywhere", start_of_heap },
	{ "counters, and /proc/PID/status", counters },
	{ "counters of limits and locks", counters_of_limits },
	{ "tracepoint", tracepoint },
	{ "KUnit", arithmetic },
	{ "programs choose by prctl", choice },
	{ "munmap leaves nothing", nothing_left },
	{ "mprotect changes what was named", rights },
	{ "cactusBSSN's mappings", cactus },
	{ "random bits of addresses", randomness },
	{ "KSM", merging },
	{ "userfaultfd", user_faults },
	{ "copy on write", copy_on_write },
};

#define CASES (sizeof(cases) / sizeof(cases[0]))

static int run_cases(const char *only)
{
	int failed = 0;

	for (size_t i = 0; i < CASES; i++) {
		int status;
		pid_t child;

		if (only && !strstr(cases[i].name, only))
			continue;
		fflush(stdout);
		child = fork();
		if (child == 0) {
			char number[16];

			snprintf(number, sizeof(number), "%zu", i);
			alarm(900); /* two thousand programs in a debug kernel take long */
			execl("/proc/self/exe", "semantics", "case", number, state, NULL);
			_exit(127);
		}
		waitpid(child, &status, 0);
		rmdir(GROUP);
		failed += status && status != SKIPPED << 8;
		if (WIFSIGNALED(status))
			printf("# signal %d\n", WTERMSIG(status));
		printf("%sok %zu - %s: %s%s\n", status && status != SKIPPED << 8 ? "not " : "", i + 1, state,
		       cases[i].name, status == SKIPPED << 8 ? " # SKIP" : "");
	}
	return failed;
}

/* What a program sees: the same on two kernels that claim to behave alike, if addresses are not random. */
static int layout(void)
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

			at[n] = map(huge * HUGE + tails[i], ANON);
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

int main(int argc, char **argv)
{
	static char buffer[1 << 14]; /* not from the heap, which is tested */
	const char *only = argc > 1 ? argv[1] : NULL;
	int failed;

	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	if (argc == 4 && !strcmp(only, "case")) {
		state = argv[3];
		cases[atoi(argv[2])].run();
		fflush(stdout);
		return 0;
	}
	if (only && !strcmp(only, "layout"))
		return layout();
	if (only && !strcmp(only, "member"))
		return member();
	if (only && !strcmp(only, "booted"))
		return booted(argv[2]);
	state = "stock";
	if (access(KNOB, W_OK)) {
		printf("# no %s that can be written: each case runs once, as stock\n", KNOB);
		failed = run_cases(only);
	} else {
		state = "off";
		failed = write_file(KNOB, "never") ? 1 : run_cases(only);
		state = "on";
		failed += write_file(KNOB, "always") ? 1 : run_cases(only);
	}
	printf("1..%zu\n# %d failed\n", CASES, failed);
	fflush(stdout);
	return failed ? 1 : 0;
}
