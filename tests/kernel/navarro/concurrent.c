// SPDX-License-Identifier: MIT
/*
 * Navarro's concurrent experiment: five times a second a program maps as much as one large page, touches it and unmaps
 * it, while another goes on reading small files, so that what was freed is soon read over. How many of the 300 requests
 * of a minute are met. What reads takes 256 KiB every 10 ms, from the first file on, again and again.
 */
#define _GNU_SOURCE
#include "count.h"
#include "filled.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REQUESTS = 300, EACH_US = 200000, PAUSE_US = 10000 };

static pid_t start_server(void)
{
	pid_t server;

	fflush(stdout);
	server = fork();
	if (server < 0)
		fail("fork()");
	while (!server)
		read_files(sysconf(_SC_PHYS_PAGES) * PAGE, PAUSE_US);
	return server;
}

/* Whether one was met. */
static long request(void)
{
	char *at = map(HUGEPAGE);
	long met;

	touch(at, HUGEPAGE, PAGE);
	met = hugepages();
	unmap(at, HUGEPAGE);
	return met;
}

EXPERIMENT(concurrent)
{
	long met = 0, before;
	pid_t server;

	mount_files();
	tell("contiguity_empty", contiguity(), "of 1000");
	fill_memory();
	tell("contiguity_filled", contiguity(), "of 1000");
	before = vmstat("pgpgin");
	server = start_server();
	begin();
	for (int i = 0; i < REQUESTS; i++) {
		met += request();
		usleep(EACH_US);
	}
	end();
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	tell("requests_met", met, "of 300");
	tell("files_read", vmstat("pgpgin") - before, "KiB");
	tell("contiguity_after", contiguity(), "of 1000");
	unmount_files();
}
