// SPDX-License-Identifier: MIT
/*
 * A program that wants hugepages, after others have filled memory with small files: four times, each a process of its
 * own, as Navarro's FFTW. How many hugepages it gets at once, and how many it has after a minute, in which khugepaged,
 * kswapd and compaction may work. The files are those of a Debian system, whose root is /dev/vdb; they are read once
 * before, and once after, which tells how many of them had to go.
 *
 * A minute takes a moment: the clock of a machine that has nothing to do goes on at once.
 */
#define _GNU_SOURCE
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
enum { WANTED = 60, RUNS = 4, HELD_S = 60 };

static long left; /* bytes to be read */

static int read_file(const char *path, __attribute__((unused)) const struct stat *status, int kind,
		     __attribute__((unused)) struct FTW *where)
{
	static char buffer[64 * KIB];
	ssize_t got = 0;
	int file = kind == FTW_F ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	while (file >= 0 && left > 0 && (got = read(file, buffer, sizeof(buffer))) > 0)
		left -= got;
	if (file >= 0)
		close(file);
	if (got < 0)
		fail(path);
	return left <= 0;
}

/* As much as there is memory; what was read from the disk for it. */
static long fill(void)
{
	long before = vmstat("pgpgin");

	left = sysconf(_SC_PHYS_PAGES) * PAGE;
	if (nftw(ROOT, read_file, 64, FTW_PHYS) < 0)
		fail("nftw()");
	if (left > 0)
		fail("the files are fewer than memory");
	return vmstat("pgpgin") - before;
}

static void want_hugepages(int run)
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

EXPERIMENT(fragmentation)
{
	if (mkdir(ROOT, 0755) && errno != EEXIST)
		fail(ROOT);
	if (mount("/dev/vdb", ROOT, "erofs", MS_RDONLY, NULL))
		fail("mount()");
	tell("contiguity_empty", contiguity(), "of 1000");
	tell("files_read", fill(), "KiB");
	tell("contiguity_filled", contiguity(), "of 1000");
	fflush(stdout);
	begin();
	for (int run = 1; run <= RUNS; run++)
		want_hugepages(run);
	end();
	tell("contiguity_after", contiguity(), "of 1000");
	tell("files_read_again", fill(), "KiB");
	if (umount(ROOT))
		fail("umount()");
}
