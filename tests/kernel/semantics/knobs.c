// SPDX-License-Identifier: MIT
/* The switches: what each takes away, when, and what they refuse. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cases.h"
#include "semantics.h"

/* What ABH does, and whether it is seen: by chance an address may look as if it were not. */

static uintptr_t start_of_heap(void)
{
	uintptr_t start = 0, end;

	grow(PAGE);
	for (char *line = maps(); *line; line = strchr(line, '\n') + 1)
		if (strstr(line, "[heap]") && strstr(line, "[heap]") < strchr(line, '\n')) {
			sscanf(line, "%lx-%lx", &start, &end);
			break;
		}
	return start;
}

static bool heap_is_aligned(void)
{
	return start_of_heap() % HUGE == 0;
}

/* As for large_heap(), which takes it for granted. */
static bool heap_has_surplus(void)
{
	uintptr_t top = (((uintptr_t)sbrk(0) + 8 * MIB) & ~(HUGE - 1)) + PAGE;

	return !brk((void *)top) && behind((void *)top);
}

/* In the hugepage that holds the break before and after. */
static bool heap_keeps(void)
{
	uintptr_t top = (((uintptr_t)sbrk(0) + 8 * MIB) & ~(HUGE - 1)) + MIB, less = top - 256 * KIB;

	return !brk((void *)top) && !brk((void *)less) && behind((void *)less);
}

/* One that begins with a slot: where it begins in the middle of one, there is no surplus in that. */
static bool small_heap_has_surplus(void)
{
	uintptr_t start = ((uintptr_t)sbrk(0) + 2 * HUGE) & ~(HUGE - 1);

	if (prctl(PR_SET_MM, PR_SET_MM_BRK, start, 0, 0) || prctl(PR_SET_MM, PR_SET_MM_START_BRK, start, 0, 0))
		fails("PR_SET_MM: %s", strerror(errno));
	if (brk((void *)(start + 64 * KIB)))
		fails("brk: %s", strerror(errno));
	return behind((void *)(start + 64 * KIB));
}

static bool has_slack(size_t bytes)
{
	map(bytes);
	return of_process("AbhSlack") > 0;
}

static bool odd_has_slack(void)
{
	return has_slack(ODD);
}

static bool mapping_grows_into_slack(void)
{
	char *at = map(ODD);

	return of_process("AbhSlack") > 0 && mremap(at, ODD, ODD + PAGE, 0) == at && of_process("AbhSlack") > 0;
}

static bool short_tail_has_slack(void)
{
	return has_slack(HUGE + MIB / 2);
}

static bool mapping_has_offset(void)
{
	char *at = map(ODD);

	return of_process("AbhSlack") > 0 && (uintptr_t)at % HUGE;
}

static bool pieces_share(void)
{
	long served = read_number(EVENTS, "abh_mmap_served");

	for (int i = 0; i < 3; i++)
		map(ARENA);
	return read_number(EVENTS, "abh_mmap_served") > served;
}

static bool zeros_are_replaced(void)
{
	volatile char *at = (char *)(((uintptr_t)map(2 * HUGE) + HUGE - 1) & ~(HUGE - 1));
	long before;

	if (*at)
		fails("fresh memory is not zero");
	before = read_number("/proc/vmstat", "thp_fault_alloc ");
	*at = 1;
	/* Whether there is a hugepage says less: khugepaged makes some, too. */
	return read_number("/proc/vmstat", "thp_fault_alloc ") > before;
}

/* For reclaim_zero_kib see what is given back in a memory control group. */
static const struct effect {
	const char *knob, *value;
	bool (*seen)(void);
	bool gives;   /* seen with this value, and not with the default: the other way round */
	bool at_once; /* for a program that was started before, too */
} effects[] = {
	{ "heap_start", "1", heap_is_aligned, true, false },
	{ "heap_end", "0", heap_has_surplus, false, false },
	{ "heap_keep", "0", heap_keeps, false, false },
	{ "heap_threshold_kib", "1048576", heap_has_surplus, false, true },
	{ "heap_threshold_kib", "0", small_heap_has_surplus, true, true },
	{ "mmap_extend", "0", odd_has_slack, false, false },
	{ "mmap_offset", "0", mapping_has_offset, false, false },
	{ "mmap_pieces", "0", pieces_share, false, false },
	{ "mmap_resize", "0", mapping_grows_into_slack, false, false },
	{ "mmap_threshold_kib", "1536", odd_has_slack, false, true },
	{ "mmap_threshold_kib", "256", short_tail_has_slack, true, true },
	{ "replace_zeros", "0", zeros_are_replaced, false, false },
	{ "unused_kib", "0", odd_has_slack, false, true },
};

int effect(int number)
{
	return effects[number].seen();
}

/* In new programs, or in copies of this one, which was started before: 0, 1, or another number if one fails. */
static int is_seen(const struct effect *effect, bool copies)
{
	char number[24];
	int status = 0;

	snprintf(number, sizeof(number), "%ld", (long)(effect - effects));
	for (int i = 0; i < 4 && !status; i++) {
		pid_t child = fork();

		if (child == 0) {
			if (copies)
				_exit(effect->seen());
			execl("/proc/self/exe", "semantics", "effect", number, NULL);
			_exit(3);
		}
		waitpid(child, &status, 0);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Returns whether it is as it should be. */
static bool judge(const struct effect *effect, bool set, bool copies)
{
	bool acts = set && (effect->at_once || !copies);
	int want = on() && acts == effect->gives, seen = is_seen(effect, copies);

	if (seen == want)
		return true;
	/* A heap starts there by chance, too, one time in 512; a copy has that of this program. */
	if (seen == 1 && effect->seen == heap_is_aligned && (copies ? heap_is_aligned() : !is_seen(effect, false)))
		return true;
	printf("# %s %s: in %s programs %d for its effect, expected %d\n", effect->knob,
	       set ? effect->value : "as it was", copies ? "running" : "new", seen, want);
	return false;
}

static void effects_go(void)
{
	bool right = true;

	if (!has_knob("heap_end"))
		skips("the kernel has no switches");
	for (size_t i = 0; i < sizeof(effects) / sizeof(effects[0]); i++) {
		const struct effect *effect = &effects[i];
		const char *path = knob(effect->knob);
		long before = read_number(path, "");

		for (int set = 0; set < 2; set++) {
			if (set && write_file(path, "%s", effect->value))
				fails("%s: %s is refused", path, effect->value);
			right &= judge(effect, set, false);
			right &= judge(effect, set, true);
		}
		write_file(path, "%ld", before);
		right &= judge(effect, false, false);
	}
	if (!right)
		fails("a switch does otherwise than it should");
}

/* What is written, and what it is taken for; less than 0: refused with this error. */
struct value {
	const char *text;
	long number;
};

static const struct value truths[] = {
	{ "0", 0 },       { "0\n", 0 },      { "1", 1 },       { "1\n", 1 },      { "0x1", 1 },     { "10", -EINVAL },
	{ "2", -EINVAL }, { "-1", -EINVAL }, { "x", -EINVAL }, { "\n", -EINVAL }, { "y", -EINVAL }, { " 1", -EINVAL },
};

/* At most as many KiB as make a number of bytes. */
static const struct value sizes[] = {
	{ "0", 0 },
	{ "0x1000\n", 4096 },
	{ "18014398509481983", 18014398509481983 },
	{ "18014398509481984", -EINVAL },
	{ "18446744073709551616", -ERANGE },
	{ "-1", -EINVAL },
	{ "x", -EINVAL },
	{ "\n", -EINVAL },
	{ " 1", -EINVAL },
	{ "1 MiB", -EINVAL },
};

static void take(const char *name, const struct value *value)
{
	const char *path = knob(name);
	long before = read_number(path, ""), other = !value->number, after;
	int error;

	write_file(path, "%ld", other);
	error = write_file(path, "%s", value->text) ? errno : 0;
	after = read_number(path, "");
	write_file(path, "%ld", before);
	if (error != (value->number < 0 ? -value->number : 0))
		fails("%s: \"%s\": %s", name, value->text, strerror(error));
	if (after != (error ? other : value->number))
		fails("%s: \"%s\" makes %ld of %ld", name, value->text, after, other);
}

static void values(void)
{
	static const char *const of_truth[] = { "heap_end",    "heap_keep",     "heap_start",
						"mmap_extend", "mmap_offset",   "mmap_pieces",
						"mmap_resize", "replace_zeros", NULL };
	static const char *const of_size[] = { "heap_threshold_kib", "mmap_threshold_kib", "reclaim_zero_kib",
					       "unused_kib", NULL };
	static const char *const no_policy[] = { "2", "-1", "x", "\n", "opt", "always never", NULL };

	if (!has_knob("heap_end"))
		skips("the kernel has no switches");
	for (const char *const *name = of_truth; *name; name++)
		for (size_t i = 0; i < sizeof(truths) / sizeof(truths[0]); i++)
			take(*name, &truths[i]);
	for (const char *const *name = of_size; *name; name++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			take(*name, &sizes[i]);
	for (const char *const *text = no_policy; *text; text++)
		if (!write_file(KNOB, "%s", *text) || errno != EINVAL ||
		    read_number(KNOB, on() ? "[always]" : "always opt-in [never]") < 0)
			fails("enabled: \"%s\": %s", *text, strerror(errno));
}

/* What a system comes to rest on: two files, and no line of /proc/vmstat. The rest may change. */
static void few(void)
{
	FILE *vmstat = fopen("/proc/vmstat", "re");
	DIR *folder = opendir(KNOBS);
	int files = 0, lines = 0;
	char line[128];

	if (!folder)
		skips("the kernel has no switches");
	for (struct dirent *entry; (entry = readdir(folder));)
		files += entry->d_name[0] != '.';
	closedir(folder);
	while (vmstat && fgets(line, sizeof(line), vmstat))
		lines += !strncmp(line, "abh_", 4);
	if (files != 2 || !has_knob("enabled") || !has_knob("unused_kib"))
		fails("%d files in " KNOBS, files);
	if (lines)
		fails("%d lines of ABH in /proc/vmstat, which everybody reads", lines);
}

/* These two count what they say: something that was extended, and something that unused_kib forbids. */
static void counted(void)
{
	long before = read_number(EVENTS, "abh_mmap_extended "), refused;

	if (before < 0)
		skips("the kernel has no such counters");
	odd_has_slack();
	if ((read_number(EVENTS, "abh_mmap_extended ") > before) != on())
		fails("abh_mmap_extended was %ld, and is %ld", before, read_number(EVENTS, "abh_mmap_extended "));
	before = read_number(KNOBS "unused_kib", "");
	refused = read_number(EVENTS, "abh_mmap_too_much ");
	write_file(KNOBS "unused_kib", "0");
	odd_has_slack();
	write_file(KNOBS "unused_kib", "%ld", before);
	if ((read_number(EVENTS, "abh_mmap_too_much ") > refused) != on())
		fails("abh_mmap_too_much was %ld, and is %ld", refused, read_number(EVENTS, "abh_mmap_too_much "));
}

const struct test semantics_knobs[] = {
	{ "each switch takes away what it stands for", effects_go, false },
	{ "switches take what they can read", values, false },
	{ "few files and lines are ABI", few, false },
	{ "what is counted counts", counted, false },
	{ NULL, NULL, false },
};
