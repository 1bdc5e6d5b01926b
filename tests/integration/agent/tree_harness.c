// SPDX-License-Identifier: MIT
/*
 * The agent's part in a cell, as the first process of a PID namespace: starts a shell, waits for it, ends what it left.
 *
 *   COMMAND            says what was counted of the shell and all its processes
 *
 * With BESIDE set there is a process beside the workload, which is not to be counted.
 */
#include <glob.h>

#include "tree.h"

#define PROCS "/tmp/procs"
#define LIMIT_S 10

/* A list like cgroup.procs: all but the agent, what is beside the workload, and zombies. */
static void list_processes(pid_t beside)
{
	FILE *list = fopen(PROCS, "w");
	glob_t found;

	if (!list || glob("/proc/[0-9]*/statm", 0, NULL, &found))
		exit(3);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		int pid = atoi(found.gl_pathv[i] + 6);
		char text[256];

		if (pid != 1 && pid != beside &&
		    strcmp(abh_glance(found.gl_pathv[i], text, sizeof(text)), "0 0 0 0 0 0 0\n"))
			fprintf(list, "%d\n", pid);
	}
	fclose(list);
	globfree(&found);
}

static pid_t start(const char *command)
{
	pid_t child = fork();

	if (!child) {
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	return child;
}

int main(int argc, char **argv)
{
	struct timespec tick = { .tv_nsec = 1000 * 1000 };
	struct abh_tree tree = { .status = -1 };
	long long together, mappings;
	bool gone;

	if (argc != 2 || getpid() != 1)
		return 2;
	tree.beside = getenv("BESIDE") ? start(getenv("BESIDE")) : 0;
	tree.first = start(argv[1]);
	while (!abh_reap(&tree, tree.first))
		nanosleep(&tick, NULL);
	list_processes(tree.beside);
	together = abh_rss_kib(PROCS);
	mappings = abh_most_mappings(PROCS);
	gone = abh_end_tree(&tree, PROCS, LIMIT_S);
	printf("gone %d\nstatus %d\nleft %lld\npeak_kib %lld\ntogether_kib %lld\nmappings %lld\nreasons %d\n", gone,
	       tree.status, tree.left, tree.rss_peak_kib, together, mappings, tree.reasons);
	return waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD ? 0 : 1;
}
