// SPDX-License-Identifier: MIT
/*
 * What must hold for the slack that alignment-based hugepages put around a mapping, one case each. Each case runs in a
 * program of its own, as what ABH does for a program is decided when it starts: first with ABH off, then with it on for
 * everybody. A kernel without ABH runs each once, as stock: there the cases must hold as well, or they ask too much.
 *
 * A case returns (it holds), fails, or skips with a reason. Output is TAP; lines "# value" are what was measured.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
#define GROUP "/sys/fs/cgroup/slack"
#define KIB 1024ul
#define MIB (1024 * KIB)
#define PAGE 4096ul
#define HUGE (2 * MIB)
#define ODD (1280 * KIB)    /* its tail is above the threshold: it is extended to 2 MiB */
#define CACTUS (4632 * KIB) /* cactusBSSN's: its tail is below; upstream's alignment made it up to 600 % slower */
#define ARENA MIB           /* CPython's */
#define PLAIN (MAP_PRIVATE | MAP_ANONYMOUS)
#define RW (PROT_READ | PROT_WRITE)
#define SKIPPED 4

static const char *state; /* "stock", "off" or "on" */

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

static bool on(void)
{
	return !strcmp(state, "on");
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

static long of_process(const char *key)
{
	return read_number("/proc/self/status", key);
}

static int write_file(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t done = file < 0 ? -1 : write(file, text, strlen(text));

	if (file >= 0)
		close(file);
	return done == (ssize_t)strlen(text) ? 0 : -1;
}

static bool has_knob(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), KNOBS "%s", name);
	return !access(path, F_OK);
}

/* What the process has been given and did not ask for. */
static long slack_kib(void)
{
	return on() ? of_process("AbhSlack") : 0;
}

static bool thp_always(void)
{
	return read_number("/sys/kernel/mm/transparent_hugepage/enabled", "[always]") >= 0;
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
	static char text[1 << 17];
	size_t length = 0;
	ssize_t got;
	int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	while ((got = read(file, text + length, sizeof(text) - 1 - length)) > 0)
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

/* The end of the mapping that holds an address; 0: nothing is mapped there. */
static uintptr_t end_of(const void *address)
{
	uintptr_t start, end;

	for (char *line = maps(); line && *line; line = strchr(line, '\n') + 1)
		if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start <= (uintptr_t)address &&
		    (uintptr_t)address < end)
			return end;
	return 0;
}

static bool is_mapped(const void *address)
{
	return end_of(address) != 0;
}

/* Bytes that a range has in hugepages. */
static size_t in_hugepages(const char *at, size_t bytes)
{
	uint64_t entry;
	size_t n = 0;
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	int flags = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);

	if (pagemap < 0 || flags < 0)
		skips("no /proc/kpageflags");
	for (const char *page = at; page < at + bytes; page += PAGE) {
		if (pread(pagemap, &entry, 8, (off_t)((uintptr_t)page / PAGE * 8)) != 8 || !(entry >> 63))
			continue;
		if (pread(flags, &entry, 8, (off_t)((entry & ((1ul << 55) - 1)) * 8)) == 8 && entry >> 22 & 1)
			n += PAGE;
	}
	close(pagemap);
	close(flags);
	return n;
}

static char *map(size_t bytes)
{
	char *got = mmap(NULL, bytes, RW, PLAIN, -1, 0);

	if (got == MAP_FAILED)
		fails("mmap of %zu KiB: %s", bytes / KIB, strerror(errno));
	return got;
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

/* A mapping with slack behind it; without ABH, with nothing there. */
static char *with_slack(size_t bytes)
{
	char *at = map(on() ? bytes : bytes + HUGE);

	if (!on())
		munmap(at + bytes, HUGE);
	fill(at, bytes, 1);
	if (on() && !is_mapped(at + bytes))
		fails("there is no slack behind %zu KiB", bytes / KIB);
	return at;
}

/* What is extended */

static void extends(void)
{
	static const size_t tails[] = { 0, PAGE, MIB - PAGE, MIB, MIB + PAGE, HUGE - PAGE };

	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		size_t bytes = 2 * HUGE + tails[i], want = on() && tails[i] > MIB ? 3 * HUGE : bytes;
		long extended = read_number("/proc/vmstat", "abh_mmap_extended ");
		char *at = map(bytes);

		/* Alone in the address space, but for what lies far above. */
		if (end_of(at) - (uintptr_t)at != want)
			fails("%zu KiB: %zu KiB are mapped, expected %zu", bytes / KIB,
			      (end_of(at) - (uintptr_t)at) / KIB, want / KIB);
		if (want != bytes && (uintptr_t)at % HUGE)
			fails("%zu KiB start at %p, not with a hugepage", bytes / KIB, (void *)at);
		if (slack_kib() != (long)((want - bytes) / KIB))
			fails("%zu KiB: /proc/self/status tells of %ld KiB of slack", bytes / KIB, slack_kib());
		if (on() && read_number("/proc/vmstat", "abh_mmap_extended ") != extended + (want != bytes))
			fails("%zu KiB: abh_mmap_extended does not count", bytes / KIB);
		munmap(at, bytes);
		if (slack_kib())
			fails("%ld KiB of slack are left", slack_kib());
	}
}

/* Whatever a request says, the size asked for is what it gets. */
static void excluded(const char *what, int protection, int flags, int file)
{
	char *got = mmap(flags & MAP_FIXED_NOREPLACE ? (void *)(1ul << 41) : NULL, ODD, protection, flags, file, 0);

	if (got == MAP_FAILED && flags & MAP_HUGETLB)
		return; /* there are none */
	if (got == MAP_FAILED)
		fails("%s: %s", what, strerror(errno));
	if (slack_kib())
		fails("%s: %ld KiB of slack", what, slack_kib());
	munmap(got, ODD);
}

static void exclusions(void)
{
	int file = memfd_create("file", MFD_CLOEXEC);

	if (ftruncate(file, ODD))
		fails("memfd: %s", strerror(errno));
	excluded("shared anonymous memory", RW, MAP_SHARED | MAP_ANONYMOUS, -1);
	excluded("a shared file", RW, MAP_SHARED, file);
	excluded("a private file", RW, MAP_PRIVATE, file);
	excluded("MAP_STACK", RW, PLAIN | MAP_STACK, -1);
	excluded("MAP_GROWSDOWN", RW, PLAIN | MAP_GROWSDOWN, -1);
	excluded("MAP_NORESERVE", RW, PLAIN | MAP_NORESERVE, -1);
	excluded("MAP_HUGETLB", RW, PLAIN | MAP_HUGETLB, -1);
	excluded("MAP_LOCKED", RW, PLAIN | MAP_LOCKED, -1);
	excluded("MAP_POPULATE", RW, PLAIN | MAP_POPULATE, -1);
	excluded("MAP_32BIT", RW, PLAIN | MAP_32BIT, -1);
	excluded("MAP_FIXED_NOREPLACE", RW, PLAIN | MAP_FIXED_NOREPLACE, -1);
	excluded("PROT_NONE", PROT_NONE, PLAIN, -1);
	excluded("PROT_READ", PROT_READ, PLAIN, -1);
	excluded("PROT_EXEC", RW | PROT_EXEC, PLAIN, -1);
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		fails("PR_SET_THP_DISABLE: %s", strerror(errno));
	excluded("PR_SET_THP_DISABLE", RW, PLAIN, -1);
	prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
	if (!mlockall(MCL_FUTURE))
		excluded("mlockall(MCL_FUTURE)", RW, PLAIN, -1);
	munlockall();
	map(ODD);
	if (on() && !slack_kib())
		fails("nothing is extended at all");
}

static void not_with_strict_overcommit(void)
{
	char *at;

	if (!on() || write_file("/proc/sys/vm/overcommit_memory", "2"))
		skips("overcommit is as it is");
	at = mmap(NULL, ODD, RW, PLAIN, -1, 0);
	write_file("/proc/sys/vm/overcommit_memory", "0");
	if (at == MAP_FAILED || slack_kib())
		fails("%ld KiB of slack", slack_kib());
}

/* As mappings and ranges of slack come near the limit, no more are made. */
static void not_with_many_mappings(void)
{
	char few[24], before[24];

	if (!on())
		skips("ABH is off");
	snprintf(before, sizeof(before), "%ld", read_number("/proc/sys/vm/max_map_count", ""));
	snprintf(few, sizeof(few), "%ld", 2 * count_vmas() - 4);
	write_file("/proc/sys/vm/max_map_count", few);
	map(ODD);
	write_file("/proc/sys/vm/max_map_count", before);
	if (slack_kib())
		fails("%ld KiB of slack", slack_kib());
}

static void no_such_call(int number)
{
	(void)number;
	_exit(SKIPPED);
}

/* A system call of 32 bits, by a program of 64: its addresses must fit. */
static void not_for_32_bits(void)
{
	long got;

	signal(SIGSEGV, no_such_call); /* a kernel without them */
	__asm__ volatile("int $0x80"
			 : "=a"(got)
			 : "a"(192), "b"(0), "c"(ODD), "d"(RW), "S"(PLAIN), "D"(-1)
			 : "r8", "r9", "r10", "r11", "memory");
	if (slack_kib() || got < 0 || got >> 32)
		fails("mmap2 gave %#lx, and %ld KiB of slack", got, slack_kib());
}

static void tail_is_huge(void)
{
	size_t bytes = 2 * HUGE + ODD;
	char *at = map(bytes);
	long faults;

	if (!thp_always())
		skips("transparent hugepages are not always on");
	faults = minor_faults();
	fill(at, bytes, 1);
	faults = minor_faults() - faults;
	value("odd.faults", faults);
	value("odd.huge_kib", (long)(in_hugepages(at, bytes) / KIB));
	if (on() && (faults > 3 || in_hugepages(at, bytes) != bytes))
		fails("%ld faults, %zu of %zu KiB in hugepages", faults, in_hugepages(at, bytes) / KIB, bytes / KIB);
}

static void not_without_hugepages(void)
{
	if (!on())
		skips("ABH is off");
	if (write_file("/sys/kernel/mm/transparent_hugepage/enabled", "never"))
		skips("no transparent hugepages");
	map(ODD);
	write_file("/sys/kernel/mm/transparent_hugepage/enabled", "always");
	if (slack_kib())
		fails("extended, and there are no hugepages");
}

/* It is never in the way */

static void left(const char *at, const char *after)
{
	uintptr_t start, end, first = (uintptr_t)at;

	for (char *line = maps(); line && *line; line = strchr(line, '\n') + 1)
		if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start < first + HUGE && end > first)
			fails("%s left %#lx-%#lx, around or behind %p", after, start, end, (const void *)at);
}

static void munmap_leaves_nothing(void)
{
	long vmas = count_vmas(), size = of_process("VmSize");
	char *at, *under;

	at = with_slack(ODD);
	munmap(at, ODD);
	left(at, "munmap()");
	at = with_slack(ODD); /* in two parts, the head first */
	munmap(at, MIB);
	munmap(at + MIB, ODD - MIB);
	left(at, "munmap() in two parts");
	at = with_slack(ODD); /* the tail first */
	munmap(at + MIB, ODD - MIB);
	if (is_mapped(at + MIB) || is_mapped(at + ODD))
		fails("munmap() of the tail left something");
	expect(at, MIB, 1, "head");
	munmap(at, MIB);
	at = with_slack(ODD); /* the upper of two */
	under = with_slack(ODD);
	munmap(at, ODD);
	left(at, "munmap() of one of two");
	munmap(under, ODD);
	at = with_slack(ODD); /* from within */
	munmap(at + ODD + PAGE, PAGE);
	munmap(at, ODD);
	if (count_vmas() != vmas || of_process("VmSize") != size)
		fails("%ld VMAs and %ld KiB more than before", count_vmas() - vmas, of_process("VmSize") - size);
}

static void munmap_splits_nothing(void)
{
	long splits = read_number("/proc/vmstat", "thp_split_pmd");

	for (int i = 0; i < 8; i++)
		munmap(with_slack(ODD), ODD);
	splits = read_number("/proc/vmstat", "thp_split_pmd") - splits;
	value("munmap.splits", splits);
	if (splits)
		fails("%ld hugepages were split", splits);
}

static void can_be_mapped(void)
{
	char *at = with_slack(ODD), *end = at + ODD;

	if (mmap(end, PAGE, PROT_READ, PLAIN | MAP_FIXED_NOREPLACE, -1, 0) != end)
		fails("MAP_FIXED_NOREPLACE right behind: %s", strerror(errno));
	munmap(at, ODD + PAGE);
	at = with_slack(ODD);
	end = at + ODD + 16 * PAGE;
	if (mmap(end, PAGE, RW, PLAIN, -1, 0) != end)
		fails("a hint behind was not taken");
	if (is_mapped(end + PAGE) && on())
		fails("slack is left behind what was mapped into it");
	munmap(at, ODD);
	munmap(end, PAGE);
	at = with_slack(ODD);
	end = at + ODD;
	if (mmap(end, HUGE, RW, PLAIN | MAP_FIXED, -1, 0) != end)
		fails("MAP_FIXED: %s", strerror(errno));
	expect(at, ODD, 1, "in front");
	expect(end, HUGE, 0, "mapped");
	munmap(at, ODD);
	expect(end, HUGE, 0, "mapped, and its neighbour unmapped");
}

static void can_be_attached(void)
{
	char *at = with_slack(ODD), *end = at + ODD;
	int id = shmget(IPC_PRIVATE, 4 * PAGE, IPC_CREAT | 0600);

	if (id < 0)
		skips("no System V shared memory");
	if (shmat(id, end, 0) != end)
		fails("shmat() right behind: %s", strerror(errno));
	shmctl(id, IPC_RMID, NULL);
}

static bool grows_into_slack(void)
{
	return on() && read_number("/proc/vmstat", "abh_mmap_grown ") >= 0;
}

static void grows_in_place(void)
{
	char *at = with_slack(ODD);
	long splits;

	if (grows_into_slack())
		fill(at + ODD, HUGE - ODD, 7);
	splits = read_number("/proc/vmstat", "thp_split_pmd");
	if (mremap(at, ODD, ODD + 16 * PAGE, 0) != at)
		fails("mremap() within the slack: %s", strerror(errno));
	if (grows_into_slack() && read_number("/proc/vmstat", "thp_split_pmd") != splits)
		fails("growing into slack has split a hugepage");
	expect(at, ODD, 1, "what was there");
	expect(at + ODD, 16 * PAGE, 0, "what is new");
	fill(at, ODD + 16 * PAGE, 2);
	/* The place above was taken by nobody. */
	if (mremap(at, ODD + 16 * PAGE, HUGE, 0) != at)
		fails("mremap() to the slack's end: %s", strerror(errno));
	munmap(at, HUGE);
	left(at, "munmap() after mremap()");
	at = with_slack(ODD);
	if (mremap(at, ODD, MIB, 0) != at || is_mapped(at + MIB))
		fails("mremap() to less left something");
}

static void moves(void)
{
	char *at = with_slack(ODD), *to = map(4 * HUGE) + HUGE, *got;

	got = mremap(at, ODD, ODD, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	if (got != to)
		fails("mremap(): %s", strerror(errno));
	expect(got, ODD, 1, "what was moved");
	left(at, "mremap()");
}

static void is_nobodys(void)
{
	char *at;

#define REFUSED(call)                                                                                                  \
	do {                                                                                                           \
		at = with_slack(ODD) + ODD - PAGE;                                                                     \
		errno = 0;                                                                                             \
		if ((call) != -1 || errno != ENOMEM)                                                                   \
			fails("%s: %s", #call, strerror(errno));                                                       \
		if (is_mapped(at + PAGE))                                                                              \
			fails("%s left something", #call);                                                             \
		munlockall();                                                                                          \
		munmap(at + PAGE - ODD, ODD);                                                                          \
	} while (0)

	REFUSED(madvise(at, 2 * PAGE, MADV_DONTNEED));
	REFUSED(madvise(at, 2 * PAGE, MADV_HUGEPAGE));
	REFUSED(mprotect(at, 2 * PAGE, PROT_READ));
	REFUSED(mlock(at, 2 * PAGE));
}

/* Calls that change the program's part only. */
static void owner_changes(void)
{
	static const int advice[] = { MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_DONTFORK, MADV_WIPEONFORK, MADV_MERGEABLE };

	for (size_t i = 0; i < sizeof(advice) / sizeof(advice[0]); i++) {
		long vmas = count_vmas(), size = of_process("VmSize");
		char *at = with_slack(ODD);
		int status;
		pid_t child;

		madvise(at, ODD, advice[i]);
		child = fork();
		if (child == 0) {
			if (advice[i] == MADV_DONTFORK)
				left(at, "fork()");
			munmap(at, ODD);
			left(at, "the child's munmap()");
			_exit(0);
		}
		waitpid(child, &status, 0);
		if (status)
			fails("child: status %#x", (unsigned)status);
		munmap(at, ODD);
		left(at, "munmap()");
		if (count_vmas() != vmas || of_process("VmSize") != size)
			fails("something is left after advice %d", advice[i]);
	}
}

static void lock_takes_what_it_names(void)
{
	char *at = with_slack(ODD);
	long locked;

	if (mlock(at, ODD))
		skips("mlock() is refused");
	locked = of_process("VmLck");
	if (locked != ODD / KIB)
		fails("%ld KiB are locked, %lu were named", locked, ODD / KIB);
	munlock(at, ODD);
	munmap(at, ODD);
	left(at, "munmap() after mlock()");
}

static void fork_and_slack(void)
{
	char *at = with_slack(ODD);
	int status;
	pid_t child = fork();

	if (child == 0) {
		expect(at, ODD, 1, "child's");
		fill(at, ODD, 2);
		munmap(at, ODD);
		left(at, "the child's munmap()");
		munmap(with_slack(ODD), ODD);
		_exit(0);
	}
	waitpid(child, &status, 0);
	if (status)
		fails("child: status %#x", (unsigned)status);
	expect(at, ODD, 1, "parent's");
	munmap(at, ODD);
	left(at, "the parent's munmap()");
}

/* Limits */

static void limit(int which, long bytes)
{
	struct rlimit limit = { (rlim_t)bytes, (rlim_t)bytes };

	if (setrlimit(which, &limit))
		fails("setrlimit: %s", strerror(errno));
}

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

/* What came of a case with ABH off, for the one with it on. */
static struct {
	long cactus_vmas, cactus_faults;
} *stock;

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
	if (on() && (vmas > stock->cactus_vmas || faults > stock->cactus_faults))
		fails("%ld VMAs and %ld faults, with ABH off %ld and %ld", vmas, faults, stock->cactus_vmas,
		      stock->cactus_faults);
	if (!on()) {
		stock->cactus_vmas = vmas;
		stock->cactus_faults = faults;
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

/* Arenas fill hugepages */

static bool has_pieces(void)
{
	return on() && has_knob("mmap_pieces");
}

/* Two arenas, the second in the slack of the first, into which the program has written, as one that writes too far
 * does. */
static char *two_arenas(char **second)
{
	char *first;

	map(ARENA);
	fill(first = map(ARENA), ARENA, 1);
	if (has_pieces())
		fill(first + ARENA, ARENA, 7);
	*second = map(ARENA);
	if (has_pieces() && *second != first + ARENA)
		fails("the second is at %p, expected %p", (void *)*second, (void *)(first + ARENA));
	return first;
}

static void arena_reads_zero(void)
{
	char *first, *second;

	first = two_arenas(&second);
	expect(second, ARENA, 0, "second");
	if (has_pieces() && in_hugepages(first, 2 * ARENA) != 2 * ARENA)
		fails("clearing it has split the hugepage");
	fill(second, ARENA, 2);
	expect(first, ARENA, 1, "first");
	munmap(first, ARENA);
	if (is_mapped(first))
		fails("munmap() left something");
	expect(second, ARENA, 2, "second, whose neighbour is gone");
	munmap(second, ARENA);
	if (is_mapped(second) || slack_kib())
		fails("munmap() left something");
}

/* Small pages of slack are given back, and the limit counts what is served. */
static void arena_without_hugepage(void)
{
	long size;
	char *first, *second;

	map(ARENA);
	first = map(ARENA);
	madvise(first, ARENA, MADV_NOHUGEPAGE);
	fill(first, ARENA, 1);
	if (has_pieces())
		fill(first + ARENA, ARENA, 7);
	size = of_process("VmSize") - slack_kib();
	second = map(ARENA);
	expect(second, ARENA, 0, "second");
	if (of_process("VmSize") - slack_kib() != size + (long)(ARENA / KIB))
		fails("%ld KiB count, expected %ld", of_process("VmSize") - slack_kib(), size + (long)(ARENA / KIB));
}

static void arena_after_fork(void)
{
	char *first, *second;
	int status;
	pid_t child;

	map(ARENA);
	fill(first = map(ARENA), ARENA, 1);
	if (has_pieces())
		fill(first + ARENA, ARENA, 7);
	child = fork();
	second = map(ARENA);
	expect(second, ARENA, 0, child ? "parent's" : "child's");
	fill(second, ARENA, child ? 2 : 3);
	expect(second, ARENA, child ? 2 : 3, child ? "parent's" : "child's");
	expect(first, ARENA, 1, child ? "parent's first" : "child's first");
	if (!child)
		_exit(0);
	waitpid(child, &status, 0);
	expect(second, ARENA, 2, "parent's after the child");
	if (status)
		fails("child: status %#x", (unsigned)status);
}

/* What is served from slack counts, though it was mapped before. */
static void limit_and_arenas(void)
{
	limit(RLIMIT_AS, of_process("VmSize") * (long)KIB + 6 * (long)ARENA);
	for (int i = 0; i < 6; i++) /* the sixth opens a hugepage that has room for one more */
		fill(map(ARENA), ARENA, 1);
	if (mmap(NULL, ARENA, RW, PLAIN, -1, 0) != MAP_FAILED)
		fails("more was granted than the limit is");
}

/* What was done to an arena is not done to the next. */
static void arena_is_fresh(void)
{
	char *first, *second;
	int status;
	pid_t child;

	map(ARENA);
	first = map(ARENA);
	madvise(first, ARENA, MADV_WIPEONFORK);
	fill(second = map(ARENA), ARENA, 2);
	child = fork();
	if (child == 0) {
		expect(second, ARENA, 2, "child's");
		_exit(0);
	}
	waitpid(child, &status, 0);
	if (status)
		fails("child: status %#x", (unsigned)status);
	mprotect(first, ARENA, PROT_READ);
	fill(second, ARENA, 3);
	fill(map(ARENA), ARENA, 4);
}

/* One that comes and goes costs no hugepage each time. */
static void piece_comes_and_goes(void)
{
	long faults;

	for (int i = 0; i < 17; i++)
		fill(map(64 * KIB), 64 * KIB, 1);
	faults = read_number("/proc/vmstat", "thp_fault_alloc ");
	for (int i = 0; i < 100; i++) {
		char *at = map(64 * KIB);

		fill(at, 64 * KIB, 1);
		munmap(at, 64 * KIB);
	}
	faults = read_number("/proc/vmstat", "thp_fault_alloc ") - faults;
	value("comes_and_goes.hugepages", faults);
	if (faults > 2)
		fails("%ld hugepages for 64 KiB, 100 times", faults);
}

static void in_pieces(size_t length, size_t total, size_t small, const char *name)
{
	long before = of_process("VmRSS"), rss;
	size_t huge = 0;
	char *at[256];
	char key[64];

	if (!thp_always())
		skips("transparent hugepages are not always on");
	for (size_t i = 0; i < total / length; i++)
		fill(at[i] = map(length), length, (int)i + 1);
	rss = of_process("VmRSS") - before;
	for (size_t i = 0; i < total / length; i++) {
		huge += in_hugepages(at[i], length);
		expect(at[i], length, (int)i + 1, name);
	}
	snprintf(key, sizeof(key), "%s.huge_kib", name);
	value(key, (long)(huge / KIB));
	snprintf(key, sizeof(key), "%s.rss_kib", name);
	value(key, rss);
	if (has_pieces() && huge < total - small)
		fails("%zu of %zu KiB are in hugepages", huge / KIB, total / KIB);
	if (rss > (long)((total + HUGE + 64 * PAGE) / KIB))
		fails("%ld KiB are resident of %zu", rss, total / KIB);
}

static void arenas(void)
{
	in_pieces(ARENA, 16 * MIB, ARENA, "arenas");
}

static void small_pieces(void)
{
	in_pieces(64 * KIB, 8 * MIB, MIB, "pieces");
}

/* A program that asks for little pays nothing. */
static void few_pieces(void)
{
	long size = of_process("VmSize");

	for (int i = 0; i < 16; i++)
		map(64 * KIB);
	map(ARENA);
	size = of_process("VmSize") - size;
	if (size != 2 * (long)(MIB / KIB))
		fails("%ld KiB are mapped, %lu were asked for", size, 2 * MIB / KIB);
}

/* The program's part starts anywhere in its hugepages */

#define MANY 32

static void offsets(void)
{
	long vmas = count_vmas(), size = of_process("VmSize");
	size_t distinct = 0, huge = 0;
	char *at[MANY];

	for (size_t i = 0; i < MANY; i++) {
		bool seen = false;

		fill(at[i] = map(ODD), ODD, (int)i + 1);
		for (size_t j = 0; j < i; j++)
			seen |= ((uintptr_t)at[i] ^ (uintptr_t)at[j]) % HUGE == 0;
		distinct += !seen;
		huge += in_hugepages(at[i], ODD);
	}
	value("offsets.distinct", (long)distinct);
	value("offsets.huge_kib", (long)(huge / KIB));
	if (on() && has_knob("mmap_offset") && (distinct < MANY / 2 || huge != MANY * ODD))
		fails("%zu offsets of %d, %zu KiB in hugepages", distinct, MANY, huge / KIB);
	for (size_t i = 0; i < MANY; i++)
		expect(at[i], ODD, (int)i + 1, "mapping");
	/* Those that are left keep what they have, whatever goes around them. */
	for (size_t step = 0; step < 3; step++)
		for (size_t i = step; i < MANY; i += 3) {
			munmap(at[i], ODD);
			at[i] = NULL;
			for (size_t j = 0; j < MANY; j++)
				if (at[j])
					expect(at[j], ODD, (int)j + 1, "mapping that is left");
		}
	if (count_vmas() != vmas || of_process("VmSize") != size)
		fails("%ld VMAs and %ld KiB are left", count_vmas() - vmas, of_process("VmSize") - size);
}

/* Calls in and around both margins. */
static void margins(void)
{
	long size = of_process("VmSize");

	for (int i = 0; i < 50; i++) {
		char *at = map(ODD), *low = (char *)((uintptr_t)at & ~(HUGE - 1));

		fill(at, ODD, 1);
		switch (i % 5) {
		case 0: /* right before */
			if (mmap(at - PAGE, PAGE, RW, PLAIN | MAP_FIXED_NOREPLACE, -1, 0) != at - PAGE)
				fails("MAP_FIXED_NOREPLACE right before: %s", strerror(errno));
			munmap(at - PAGE, PAGE);
			break;
		case 1: /* the owner's part changes */
			mprotect(at, ODD, PROT_READ);
			mprotect(at, ODD, RW);
			break;
		case 2:
			if (mremap(at, ODD, MIB, 0) != at)
				fails("mremap() to less: %s", strerror(errno));
			break;
		case 3: /* around all of it */
			munmap(on() ? low : at, on() ? 2 * HUGE : ODD);
			if (of_process("VmSize") != size)
				fails("munmap() around a mapping: %ld KiB are left", of_process("VmSize") - size);
			continue;
		}
		expect(at, i % 5 == 2 ? MIB : ODD, 1, "owner");
		munmap(at, ODD);
		if (of_process("VmSize") != size || slack_kib())
			fails("%d: %ld KiB are left, and %ld of slack", i % 5, of_process("VmSize") - size,
			      slack_kib());
	}
}

/* What the kernel tells, and its own test */

static bool trace_has(const char *words)
{
	char line[512];
	bool found = false;
	FILE *file = fopen("/sys/kernel/tracing/trace", "re");

	while (file && !found && fgets(line, sizeof(line), file))
		found = strstr(line, words);
	if (file)
		fclose(file);
	return found;
}

static void tracepoint(void)
{
	char wanted[96];
	char *at;

	if (write_file("/sys/kernel/tracing/events/abh/abh_mmap/enable", "1"))
		skips("the kernel has no such tracepoint");
	at = map(ODD);
	mmap(NULL, ODD, RW, PLAIN | MAP_STACK, -1, 0);
	write_file("/sys/kernel/tracing/events/abh/abh_mmap/enable", "0");
	snprintf(wanted, sizeof(wanted), "abh_mmap: addr=%p len=%#lx abh_mmap_extended", (void *)at, ODD);
	if (trace_has(wanted) != on() || trace_has("abh_mmap_excluded") != on())
		fails("the trace tells otherwise than \"%s\"", wanted);
}

static void arithmetic(void)
{
	char line[256];
	long passed = 0;
	FILE *file = fopen("/sys/kernel/debug/kunit/abh_mmap/results", "re");

	if (!file)
		skips("the kernel has no KUnit test of mappings");
	while (fgets(line, sizeof(line), file)) {
		if (strstr(line, "not ok"))
			fails("%s", line);
		passed += !!strstr(line, "ok ");
	}
	fclose(file);
	value("kunit.lines", passed);
	if (passed < 12)
		fails("%ld tests of KUnit passed", passed);
}

static const struct {
	const char *name;
	void (*run)(void);
	bool random; /* with random addresses: then there may be slack before the program's part */
} cases[] = {
	{ "what is extended", extends, false },
	{ "what is not extended", exclusions, false },
	{ "nothing is extended without hugepages", not_without_hugepages, false },
	{ "nothing is extended with strict overcommit", not_with_strict_overcommit, false },
	{ "nothing is extended with many mappings", not_with_many_mappings, false },
	{ "nothing is extended for 32 bits", not_for_32_bits, false },
	{ "the tail is a hugepage", tail_is_huge, false },
	{ "munmap leaves nothing", munmap_leaves_nothing, false },
	{ "munmap splits nothing", munmap_splits_nothing, false },
	{ "slack can be mapped", can_be_mapped, false },
	{ "slack can be attached to", can_be_attached, false },
	{ "mremap in place", grows_in_place, false },
	{ "mremap to elsewhere", moves, false },
	{ "slack is nobody's", is_nobodys, false },
	{ "calls on the program's part", owner_changes, false },
	{ "mlock locks what it names", lock_takes_what_it_names, false },
	{ "fork", fork_and_slack, false },
	{ "RLIMIT_AS is exact", limit_of_addresses, false },
	{ "RLIMIT_DATA is exact", limit_of_data, false },
	{ "cactusBSSN's mappings", cactus, false },
	{ "odd mappings merge", merges, false },
	{ "offsets", offsets, true },
	{ "slack on both sides", margins, true },
	{ "arenas of 1 MiB", arenas, true },
	{ "pieces of 64 KiB", small_pieces, true },
	{ "few pieces cost nothing", few_pieces, false },
	{ "a piece that comes and goes", piece_comes_and_goes, false },
	{ "an arena reads zero", arena_reads_zero, false },
	{ "an arena reads zero without a hugepage", arena_without_hugepage, false },
	{ "an arena reads zero after fork", arena_after_fork, false },
	{ "an arena is fresh", arena_is_fresh, false },
	{ "RLIMIT_AS and arenas", limit_and_arenas, false },
	{ "tracepoint", tracepoint, false },
	{ "KUnit", arithmetic, false },
};

#define CASES (sizeof(cases) / sizeof(cases[0]))

static int run_cases(const char *which, const char *only)
{
	int failed = 0;

	for (size_t i = 0; i < CASES; i++) {
		char number[24];
		int status;
		pid_t child;

		if (only && !strstr(cases[i].name, only))
			continue;
		snprintf(number, sizeof(number), "%zu", i);
		fflush(stdout);
		child = fork();
		if (child == 0) {
			personality(cases[i].random ? 0 : ADDR_NO_RANDOMIZE);
			execl("/proc/self/exe", "slack", "case", which, number, NULL);
			_exit(127);
		}
		waitpid(child, &status, 0);
		rmdir(GROUP);
		failed += status && status != SKIPPED << 8;
		if (WIFSIGNALED(status))
			printf("# signal %d\n", WTERMSIG(status));
		printf("%sok %zu - %s: %s%s\n", status && status != SKIPPED << 8 ? "not " : "", i + 1, which,
		       cases[i].name, status == SKIPPED << 8 ? " # SKIP" : "");
	}
	return failed;
}

/* One case: standard input is what the cases have in common. */
static int run_case(char **words)
{
	state = words[0];
	/* Far from where the kernel would put it, so that there is nothing behind a first mapping. */
	stock = mmap((void *)(1ul << 40), sizeof(*stock), RW, MAP_SHARED, 0, 0);
	if (stock == MAP_FAILED)
		fails("nothing is shared: %s", strerror(errno));
	alarm(1200); /* the clock of a slow machine may be fast */
	cases[atoi(words[1])].run();
	fflush(stdout);
	_exit(0);
}

int main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : NULL;
	int failed, shared;

	setvbuf(stdout, malloc(1 << 14), _IOFBF, 1 << 14);
	if (argc == 4 && !strcmp(only, "case"))
		return run_case(argv + 2);
	shared = memfd_create("shared", 0);
	if (shared < 0 || ftruncate(shared, sizeof(*stock)) || dup2(shared, 0) < 0)
		fails("memfd: %s", strerror(errno));
	/* It would make hugepages as well, at any time: faults are compared. */
	write_file("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", "100000000");
	if (!has_knob("enabled")) {
		printf("# no " KNOBS ": each case runs once, as stock\n");
		failed = run_cases("stock", only);
	} else {
		failed = write_file(KNOBS "enabled", "never") ? 1 : run_cases("off", only);
		failed += write_file(KNOBS "enabled", "always") ? 1 : run_cases("on", only);
	}
	printf("1..%zu\n# %d failed\n", CASES, failed);
	fflush(stdout);
	return failed ? 1 : 0;
}
