// SPDX-License-Identifier: MIT
/*
 * Calls the kernel's memory calls at random, and compares what comes of them with a model of their semantics.
 *
 * It is the independent check of alignment-based hugepages: a kernel that aligns and extends what programs map must
 * behave, to them, like one that does not. The model (model.c) knows of every page that was asked for whether it is
 * mapped, what may be done to it, and what it holds. An operation (ops.c) makes one call and compares its result, or
 * reads and writes pages. So these are found: contents lost, stale or of somebody else, in parent or child; a fault too
 * many or too few; a place that is free and refused, or taken and given; mappings left behind or wrong in
 * /proc/self/maps.
 *
 * A run is a sequence of episodes, each in a process of its own, which starts and ends with nothing mapped. An
 * operation is one number: all it draws comes from that number and from the model's state. So an episode is a list of
 * numbers, any part of which can be run again, and a failure is shrunk by leaving operations out while it still fails.
 * What is left is printed, and --replay reads it.
 *
 * Addresses are not random unless asked for (--aslr), so that a list does the same each time.
 *
 * With --extended, what was not asked for may be mapped as well, if it is private, anonymous, within a hugepage of
 * private memory, has no right that the program's memory beside it has not, and holds nothing that is not the program's
 * own. Without it, it must fault: the stock kernel's rule. --surplus is the same, and a run in which the heap never had
 * a surplus fails: it would show nothing. So is --slack, for mappings, and --before, for those that have some before
 * them, as they have only with --aslr.
 *
 * --ask asks for ABH before it begins, as a program has to where the system has it for those that ask.
 *
 * With --noise, a second thread reads all the while, anywhere: what faults and calls do to each other is then tried
 * too.
 *
 * With --reservations, heaps grow over hugepages and whole ones are written, now and then, so that such as grow in
 * place become whole. A run in which none did fails, unless the kernel extends what it maps: little is covered in part
 * then. With --pressure, another process has the kernel take back and move what it can, all the while.
 *
 * --break NAME makes faults in the harness, like those of a wrong kernel: the fuzzer must then fail.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "abh.h"
#include "maps.h"
#include "model.h"
#include "ops.h"

#define MOST_OPS 20000
#define HANG_S 600
#define PROGRESS_S 10
#define SHRINK_RUNS 1500
#define PRESSURE_OPS 200 /* between two rounds */

static struct {
	uint64_t seed, ops, first;
	double seconds;
	size_t length; /* of an episode */
	const char *replay;
	bool aslr, ask, no_shrink, pressure;
} wanted = { .seed = 1, .ops = 100000, .length = 1000 };

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Runs operations in a process of its own; returns its wait status. */
static int run(const uint64_t *list, size_t length)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(HANG_S);
		ops_begin();
		for (size_t i = 0; i < length; i++) {
			shared->failed_at = i;
			if (options.verbose)
				dprintf(1, "op %016lx ", list[i]);
			op_run(list[i]);
			if (options.verbose)
				dprintf(1, "\n");
		}
		shared->failed_at = length;
		ops_finish();
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child) {
		perror("fuzz: fork");
		exit(2);
	}
	if (WIFSIGNALED(status) && !options.quiet)
		printf("FAIL: an episode ended with signal %d%s\n", WTERMSIG(status),
		       WTERMSIG(status) == SIGALRM ? ": it hung" : "");
	return status;
}

/* Where the kernel draws addresses, the same list may fail only now and then. */
static bool still_fails(const uint64_t *list, size_t length)
{
	for (int tries = options.extended || wanted.aslr ? 3 : 1; tries; tries--)
		if (run(list, length))
			return true;
	return false;
}

/* Leaves out each part of a size without which it still fails; returns what is left. */
static size_t leave_out(uint64_t *list, size_t length, size_t part, int *runs)
{
	static uint64_t rest[MOST_OPS];

	for (size_t at = 0; at < length && *runs < SHRINK_RUNS; ++*runs) {
		size_t end = at + part < length ? at + part : length;

		memcpy(rest, list, at * sizeof(*list));
		memcpy(rest + at, list + end, (length - end) * sizeof(*list));
		if (still_fails(rest, length - (end - at))) {
			length -= end - at;
			memcpy(list, rest, length * sizeof(*list));
		} else {
			at = end;
		}
	}
	return length;
}

/* Ever smaller parts, and again as long as that helps: what an operation draws depends on those before it. */
static size_t shrink(uint64_t *list, size_t length)
{
	size_t before;
	int runs = 0;

	if (shared->failed_at < length)
		length = shared->failed_at + 1;
	do {
		before = length;
		for (size_t part = (length + 1) / 2; part; part /= 2)
			length = leave_out(list, length, part, &runs);
	} while (length < before && runs < SHRINK_RUNS);
	printf("shrunk in %d runs to %zu operations; --replay takes these lines:\n", runs, length);
	return length;
}

static int report(uint64_t *list, size_t length)
{
	fflush(stdout);
	if (!wanted.no_shrink) {
		options.quiet = true;
		length = shrink(list, length);
		options.quiet = false;
	}
	fflush(stdout);
	options.verbose = true;
	if (!still_fails(list, length))
		printf("it did not fail again: it depends on more than the operations\n");
	return 1;
}

static void progress(uint64_t episode, uint64_t done, double start)
{
	double elapsed = now() - start;

	printf("fuzz: seed %lu, before episode %lu: %lu operations, %.0f s, %.0f a second\n", wanted.seed, episode,
	       done, elapsed, (double)done / (elapsed > 0 ? elapsed : 1));
}

/* What the kernel did meanwhile, so that a run which tried little shows it. */
static void print_lines(const char *path, const char *prefix)
{
	char line[128];
	FILE *file = fopen(path, "re");

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, prefix, strlen(prefix)))
			printf("counted: %s", line);
	if (file)
		fclose(file);
}

static void print_counters(void)
{
	print_lines("/sys/kernel/debug/abh/events", "");
	print_lines("/proc/vmstat", "thp_reserve_");
	print_lines("/proc/superpages", "");
}

static uint64_t promoted(void)
{
	char line[128];
	uint64_t count = 0;
	FILE *file = fopen("/proc/vmstat", "re");

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "thp_reserve_promote %lu", &count);
	if (file)
		fclose(file);
	return count;
}

static void write_number(const char *path, char number)
{
	int file = open(path, O_WRONLY | O_CLOEXEC);

	if (file < 0 || write(file, &number, 1) != 1) {
		perror(path);
		_exit(2);
	}
	close(file);
}

static uint64_t operations(void)
{
	uint64_t sum = 0;

	for (int i = 0; op_name(i); i++)
		sum += shared->count[i];
	return sum;
}

/* By operations, not by time: between two rounds a hugepage can become whole, however slow the kernel is. */
static void wait_for_operations(void)
{
	uint64_t start = operations();

	while (operations() - start < PRESSURE_OPS)
		usleep(1000);
}

/* What shrinks caches splits what is reserved; compaction moves the rest. */
static void start_pressure(void)
{
	if (fork())
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		write_number("/proc/sys/vm/drop_caches", '2');
		wait_for_operations();
		write_number("/proc/sys/vm/compact_memory", '1');
		wait_for_operations();
	}
}

static int fuzz(void)
{
	static uint64_t list[MOST_OPS];
	double start = now(), told = start;
	uint64_t done = 0, episode = wanted.first;

	if (wanted.pressure)
		start_pressure();
	for (; done < wanted.ops && (!wanted.seconds || now() - start < wanted.seconds); episode++) {
		for (size_t i = 0; i < wanted.length; i++)
			list[i] = mix(mix(wanted.seed, episode), i);
		if (run(list, wanted.length)) {
			printf("seed %lu, episode %lu, operation %lu\n", wanted.seed, episode, shared->failed_at);
			return report(list, wanted.length);
		}
		done += wanted.length;
		if (now() - told >= PROGRESS_S) {
			told = now();
			progress(episode + 1, done, start);
		}
	}
	progress(episode, done, start);
	for (int i = 0; op_name(i); i++)
		printf("%s %lu%s", op_name(i), shared->count[i], op_name(i + 1) ? ", " : "\n");
	if (options.extended)
		printf("surplus behind the heap: after %lu brk() up and %lu down; taken from by %lu\n",
		       shared->surplus[0], shared->surplus[1], shared->surplus[2]);
	if (options.extended)
		printf("slack around mappings: behind %lu, before %lu\n", shared->slack[0], shared->slack[1]);
	print_counters();
	if (options.reservations && !options.extended && !promoted()) {
		printf("FAIL: where no hugepage has grown in place, nothing is shown of it\n");
		return 1;
	}
	if (options.slack && !shared->slack[0]) {
		printf("FAIL: mappings without slack show nothing of it\n");
		return 1;
	}
	if (options.before && !shared->slack[1]) {
		printf("FAIL: mappings without slack before them show nothing of it\n");
		return 1;
	}
	if (options.surplus && !(shared->surplus[0] && shared->surplus[1] && shared->surplus[2])) {
		printf("FAIL: a heap without a surplus shows nothing of one\n");
		return 1;
	}
	printf("PASS: %lu operations\n", done);
	return 0;
}

static int replay(void)
{
	static uint64_t list[MOST_OPS];
	size_t length = 0;
	char line[256];
	FILE *file = fopen(wanted.replay, "re");

	if (!file) {
		perror(wanted.replay);
		return 2;
	}
	while (length < MOST_OPS && fgets(line, sizeof(line), file))
		length += sscanf(line, "op %lx", &list[length]) == 1;
	fclose(file);
	options.verbose = true;
	return run(list, length) ? 1 : 0;
}

static int usage(void)
{
	fprintf(stderr,
		"usage: fuzz [--seed N] [--ops N] [--seconds N] [--episode N] [--length N] [--extended] [--surplus]\n"
		"            [--slack] [--before] [--noise] [--reservations] [--pressure]\n"
		"            [--aslr] [--ask] [--no-shrink] [--break NAME] [--replay FILE]\n"
		"NAME is one of:");
	for (int i = 0; i < BREAKS; i++)
		fprintf(stderr, " %s", break_names[i]);
	fprintf(stderr, "\n");
	return 2;
}

static bool take_flag(const char *word)
{
	if (!strcmp(word, "--extended"))
		return options.extended = true;
	if (!strcmp(word, "--surplus"))
		return options.extended = options.surplus = true;
	if (!strcmp(word, "--slack"))
		return options.extended = options.slack = true;
	if (!strcmp(word, "--before"))
		return options.extended = options.before = true;
	if (!strcmp(word, "--noise"))
		return options.noise = true;
	if (!strcmp(word, "--reservations"))
		return options.reservations = true;
	if (!strcmp(word, "--pressure"))
		return wanted.pressure = true;
	if (!strcmp(word, "--aslr"))
		return wanted.aslr = true;
	if (!strcmp(word, "--ask"))
		return wanted.ask = true;
	if (!strcmp(word, "--no-shrink"))
		return wanted.no_shrink = true;
	return false;
}

static bool take_value(const char *word, const char *value)
{
	uint64_t number = strtoull(value, NULL, 0);

	if (!strcmp(word, "--seed"))
		wanted.seed = number;
	else if (!strcmp(word, "--ops"))
		wanted.ops = number;
	else if (!strcmp(word, "--seconds"))
		wanted.seconds = (double)number;
	else if (!strcmp(word, "--episode"))
		wanted.first = number;
	else if (!strcmp(word, "--length") && number && number <= MOST_OPS)
		wanted.length = number;
	else if (!strcmp(word, "--replay"))
		wanted.replay = value;
	else if (!strcmp(word, "--break"))
		for (options.broken = 0; options.broken < BREAKS; options.broken++)
			if (!strcmp(value, break_names[options.broken]))
				return true;
			else
				continue;
	else
		return false;
	return options.broken < BREAKS;
}

static uintptr_t map_and_unmap(size_t bytes, int times)
{
	void *at[8];

	for (int i = 0; i < times; i++)
		at[i] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < times; i++)
		munmap(at[i], bytes);
	return (uintptr_t)at[times - 1];
}

/* Where extended mappings lie: one that any threshold but the largest extends tells, or else arenas do. */
static uintptr_t find_extended(uintptr_t plain)
{
	uintptr_t odd = map_and_unmap(HUGE - PAGE, 1), arena = map_and_unmap(HUGE / 2, 8);

	return plain - odd > 1ul << 30 ? odd : arena;
}

/* The windows of the model, and what it shares: after this, nothing may allocate memory. */
static void prepare(void)
{
	static char buffer[1 << 14];
	uintptr_t first;

	setvbuf(stdout, buffer, _IOLBF, sizeof(buffer));
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	first = (uintptr_t)mmap(NULL, PAGE, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	munmap((void *)first, PAGE);
	model_init(ops_prepare(), first, find_extended(first));
	mark_foreign();
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (take_flag(argv[i]))
			continue;
		if (i + 1 == argc || !take_value(argv[i], argv[i + 1]))
			return usage();
		i++;
	}
	if (!wanted.aslr && !(personality(0xffffffff) & ADDR_NO_RANDOMIZE)) {
		personality(ADDR_NO_RANDOMIZE);
		execv("/proc/self/exe", argv);
	}
	if (wanted.ask && prctl(PR_GET_ABH, 0, 0, 0, 0) != PR_ABH_ON) {
		if (prctl(PR_SET_ABH, PR_ABH_ON, 0, 0, 0)) {
			perror("fuzz: prctl(PR_SET_ABH)");
			return 2;
		}
		execv("/proc/self/exe", argv);
	}
	prepare();
	return wanted.replay ? replay() : fuzz();
}
