/* SPDX-License-Identifier: MIT */
/*
 * All processes of a workload: what is counted of them, and their end.
 *
 * The agent is the first process of its system. So every process that the workload leaves behind, also one that forked
 * twice and has a session of its own, becomes its child in the end, and what the kernel counted of it is there to be
 * taken when it is reaped.
 */
#ifndef ABH_TREE_H
#define ABH_TREE_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "protocol.h"

/* More than the kernel's table of faults has; what does not fit is refused by the bench as cut short. */
#define ABH_REASONS 32
#define ABH_REGIONS 6
#define ABH_PAGE_KIB 4
/* Of a list of processes: of more than two thousand, the others are not looked at. */
#define ABH_PROCS_BYTES 16384

struct abh_tree {
	pid_t beside;   /* a child that is not of the workload, or 0 */
	pid_t first;    /* the workload's first process */
	int status;     /* how that ended, once it is reaped */
	long long left; /* processes that were there when it had ended */
	/* Of the processes reaped, and of the children that they had waited for. */
	long long major_faults, rss_peak_kib;
	/* The sum of their tables of faults (/proc/PID/thp_faults); none unless the cell has set explain_faults. */
	char header[128];
	int reasons;
	struct {
		char name[24];
		long long faults[ABH_REGIONS];
	} reason[ABH_REASONS];
};

static inline int abh_reason(struct abh_tree *tree, const char *name)
{
	int at = 0;

	while (at < tree->reasons && strcmp(tree->reason[at].name, name))
		at++;
	if (at == tree->reasons && at < ABH_REASONS)
		snprintf(tree->reason[tree->reasons++].name, sizeof(tree->reason[at].name), "%s", name);
	return at;
}

/* Adds the table of a process that has ended and is not yet reaped. */
static inline void abh_add_faults(struct abh_tree *tree, pid_t pid)
{
	struct abh_line line;
	char path[64], *text, *rest;

	snprintf(path, sizeof(path), "/proc/%d/thp_faults", (int)pid);
	rest = text = abh_read_file(path, 16384);
	if (abh_next_line(&rest, &line))
		snprintf(tree->header, sizeof(tree->header), "%s %s", line.key, line.rest);
	while (abh_next_line(&rest, &line)) {
		int at = abh_reason(tree, line.key);

		for (int i = 0; at < ABH_REASONS && i < ABH_REGIONS; i++)
			tree->reason[at].faults[i] += strtoll(line.rest, &line.rest, 10);
	}
	free(text);
}

static inline void abh_count(struct abh_tree *tree, pid_t pid)
{
	struct rusage usage;
	int status;

	if (pid != tree->beside)
		abh_add_faults(tree, pid);
	if (wait4(pid, &status, 0, &usage) != pid || pid == tree->beside)
		return;
	if (pid == tree->first)
		tree->status = status;
	tree->major_faults += usage.ru_majflt;
	if (usage.ru_maxrss > tree->rss_peak_kib)
		tree->rss_peak_kib = usage.ru_maxrss;
}

/* Reaps the children that have ended. True at `last`, which stays a zombie, or if there is no child any more. */
static inline bool abh_reap(struct abh_tree *tree, pid_t last)
{
	for (;;) {
		siginfo_t gone = { .si_pid = 0 };

		if (waitid(P_ALL, 0, &gone, WEXITED | WNOHANG | WNOWAIT))
			return errno == ECHILD;
		if (!gone.si_pid || gone.si_pid == last)
			return gone.si_pid;
		abh_count(tree, gone.si_pid);
	}
}

/*
 * A file up to a size, without what stdio costs: it is asked often while the workload runs. "", or nothing. A read of a
 * kernel's file gives a page at most.
 */
static inline const char *abh_glance(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t held = 0;
	ssize_t got = fd < 0 ? 0 : 1;

	while (got > 0 && held < size - 1) {
		got = read(fd, text + held, size - 1 - held);
		held += got > 0 ? (size_t)got : 0;
	}
	if (fd >= 0)
		close(fd);
	text[held] = '\0';
	return text;
}

static inline long long abh_resident_kib(const char *pid, int digits)
{
	char path[64], text[256];
	const char *resident;

	snprintf(path, sizeof(path), "/proc/%.*s/statm", digits, pid);
	resident = strchr(abh_glance(path, text, sizeof(text)), ' ');
	return resident ? atoll(resident) * ABH_PAGE_KIB : 0;
}

/* The most mappings that one process of a list (cgroup.procs) has: lines of its maps. */
static inline long long abh_most_mappings(const char *procs)
{
	char text[ABH_PROCS_BYTES], path[64], part[4096];
	const char *at = abh_glance(procs, text, sizeof(text));
	long long most = 0;

	for (const char *end; (end = strchr(at, '\n')); at = end + 1) {
		long long lines = 0;
		ssize_t got = 0;
		int fd;

		snprintf(path, sizeof(path), "/proc/%.*s/maps", (int)(end - at), at);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		while (fd >= 0 && (got = read(fd, part, sizeof(part))) > 0)
			for (ssize_t i = 0; i < got; i++)
				lines += part[i] == '\n';
		if (fd >= 0)
			close(fd);
		most = lines > most ? lines : most;
	}
	return most;
}

/* How many processes a list (cgroup.procs) has. */
static inline long long abh_processes(const char *procs)
{
	char text[ABH_PROCS_BYTES];
	long long found = 0;

	for (const char *at = abh_glance(procs, text, sizeof(text)); *at; at++)
		found += *at == '\n';
	return found;
}

/*
 * Resident memory of all processes in a list (cgroup.procs), added up: a page that several have is in each one's. 0 if
 * there is one alone: the kernel keeps its exact peak, so nothing is asked, as asking costs instructions.
 */
static inline long long abh_rss_kib(const char *procs)
{
	char text[ABH_PROCS_BYTES];
	const char *at = abh_glance(procs, text, sizeof(text)), *end = strchr(at, '\n');
	long long sum = 0;

	if (!end || !end[1])
		return 0;
	for (; end; at = end + 1, end = strchr(at, '\n'))
		sum += abh_resident_kib(at, (int)(end - at));
	return sum;
}

/*
 * Ends all that the first process left, and reaps it; false if something is still there after `limit_s` seconds. The
 * kernel sends the signal to all other processes at one go, and no process can fork with a signal pending: so a fork
 * bomb cannot get away. What the policy put beside the workload ends with it.
 */
static inline bool abh_end_tree(struct abh_tree *tree, const char *procs, int limit_s)
{
	struct timespec tick = { .tv_nsec = 10 * 1000 * 1000 };

	tree->left = abh_processes(procs);
	kill(-1, SIGKILL);
	for (int ticks = 0; ticks < 100 * limit_s; ticks++) {
		if (abh_reap(tree, 0))
			return true;
		nanosleep(&tick, NULL);
	}
	return false;
}

#endif
