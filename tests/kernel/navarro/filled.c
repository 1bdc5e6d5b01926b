// SPDX-License-Identifier: MIT
/* What the experiments of fragmentation share: files that fill memory, and a program that wants hugepages then. */
#define _GNU_SOURCE
#include "filled.h"

#include "count.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOT "/tmp/root"
enum { WANTED = 60, RUNS = 4, HELD_S = 60, PAUSE_AFTER = 256 * KIB };

static long left, pause_us, until_pause; /* bytes to be read; microseconds; bytes */

static int read_file(const char *path, __attribute__((unused)) const struct stat *status, int kind,
		     __attribute__((unused)) struct FTW *where)
{
	static char buffer[64 * KIB];
	ssize_t got = 0;
	int file = kind == FTW_F ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	while (file >= 0 && left > 0 && (got = read(file, buffer, sizeof(buffer))) > 0) {
		left -= got;
		until_pause -= got;
		if (pause_us && until_pause <= 0) {
			usleep(pause_us);
			until_pause = PAUSE_AFTER;
		}
	}
	if (file >= 0)
		close(file);
	if (got < 0)
		fail(path);
	return left <= 0;
}

void mount_files(void)
{
	if (mkdir(ROOT, 0755) && errno != EEXIST)
		fail(ROOT);
	if (mount("/dev/vdb", ROOT, "erofs", MS_RDONLY, NULL))
		fail("mount()");
}

void unmount_files(void)
{
	if (umount(ROOT))
		fail("umount()");
}

long read_files(long bytes, long pause)
{
	long before = vmstat("pgpgin");

	left = bytes;
	pause_us = pause;
	until_pause = PAUSE_AFTER;
	if (nftw(ROOT, read_file, 64, FTW_PHYS) < 0)
		fail("nftw()");
	if (left > 0)
		fail("the files are fewer than what was to be read");
	return vmstat("pgpgin") - before;
}

long fill_memory(void)
{
	return read_files(sysconf(_SC_PHYS_PAGES) * PAGE, 0);
}

static void want_once(int run)
{
	char name[32], *at;
	int status;
	pid_t child = fork();

	if (child < 0)
		fail("fork()");
	if (!child) {
		at = map((size_t)WANTED * HUGEPAGE);
		touch(at, (size_t)WANTED * HUGEPAGE, PAGE);
		snprintf(name, sizeof(name), "run_%d_at_once", run);
		tell(name, hugepages(), "hugepages");
		sleep(HELD_S);
		snprintf(name, sizeof(name), "run_%d_held", run);
		tell(name, hugepages(), "hugepages");
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, &status, 0);
	if (status)
		fail("a run");
}

void want_hugepages(void)
{
	fflush(stdout);
	for (int run = 1; run <= RUNS; run++)
		want_once(run);
}
