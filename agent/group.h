/* SPDX-License-Identifier: MIT */
/*
 * The control group of a workload: what the kernel has counted of it, and peaks that no counter of the kernel keeps, as
 * samples find them.
 */
#ifndef ABH_GROUP_H
#define ABH_GROUP_H

#include <time.h>

#include "protocol.h"
#include "tree.h"

#define ABH_GROUP "/sys/fs/cgroup/cell"
/* Arbitrary: often enough to catch a peak, rare enough to cost nothing that shows. */
#define ABH_SAMPLE_NS (20 * 1000 * 1000)
/* The kernel writes a list of mappings anew each time: a few hundred of them, four times a second, cost 0.1 %. */
#define ABH_SAMPLES_PER_LIST 12

static inline double abh_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline char *abh_group_table(void)
{
	return abh_read_file(ABH_GROUP "/memory.stat", 16384);
}

static inline long long abh_group_value(const char *key)
{
	char *table = abh_group_table();
	long long value = table ? abh_table_value(table, key) : -1;

	free(table);
	return value;
}

/*
 * What the group is charged with but files: anonymous memory, also of hugepages of which a part is not mapped any more,
 * which no process's own numbers have, and what the kernel keeps for it, tables of pages and mappings among it.
 */
static inline long long abh_memory_kib(const char *table)
{
	char *current = abh_read_file(ABH_GROUP "/memory.current", 64);
	long long file = table ? abh_table_value(table, "file") : -1, kib = -1;

	if (current && file >= 0)
		kib = (atoll(current) - file) / 1024;
	free(current);
	return kib;
}

/* The kernel adds up a group's numbers now and then. To read cpu.stat makes it do so at once, for all controllers. */
static inline void abh_settle_group(void)
{
	free(abh_read_file(ABH_GROUP "/cpu.stat", 4096));
}

/* Peaks that no counter of the kernel keeps, as the samples found them. */
struct abh_peaks {
	long long huge, rss_kib, memory_kib, mappings;
	long samples;
};

static inline void abh_keep_most(long long *most, long long value)
{
	if (value > *most)
		*most = value;
}

static inline void abh_sample(struct abh_peaks *peaks)
{
	char *table = abh_group_table();

	abh_keep_most(&peaks->huge, table ? abh_table_value(table, "anon_thp") : -1);
	abh_keep_most(&peaks->memory_kib, abh_memory_kib(table));
	free(table);
	abh_keep_most(&peaks->rss_kib, abh_rss_kib(ABH_GROUP "/cgroup.procs"));
	if (peaks->samples++ % ABH_SAMPLES_PER_LIST == 0)
		abh_keep_most(&peaks->mappings, abh_most_mappings(ABH_GROUP "/cgroup.procs"));
}

/* Memory of what the first process has left, once that has had nothing to do for so long; negative where not asked. */
struct abh_idle {
	long long after_1s_kib, after_10s_kib;
};

static inline long long abh_memory_after(int idle_s)
{
	struct timespec time = { .tv_sec = idle_s };
	char *table;
	long long kib;

	nanosleep(&time, NULL);
	table = abh_group_table();
	kib = abh_memory_kib(table);
	free(table);
	return kib;
}

static inline struct abh_idle abh_watch_idle(void)
{
	struct abh_idle idle = { .after_1s_kib = abh_memory_after(1) };

	idle.after_10s_kib = abh_memory_after(9);
	return idle;
}

#endif
