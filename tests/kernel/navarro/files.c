// SPDX-License-Identifier: MIT
/*
 * Two mappings of one file without an address, the second of another part: Navarro's kernel gives both the file's
 * alignment, so that both have large pages. Linux does so for tmpfs; both are written to, as what is dirty there is
 * written to no disk.
 */
#define _GNU_SOURCE
#include "count.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "/tmp/files"
enum { FILE_BYTES = 32 * MIB, FROM = HUGEPAGE / 2 };

static char *map_file(int file, off_t from)
{
	char *at = mmap(NULL, FILE_BYTES - from, PROT_READ | PROT_WRITE, MAP_SHARED, file, from);

	if (at == MAP_FAILED)
		fail("mmap()");
	return at;
}

EXPERIMENT(files)
{
	char *first, *second;
	int file;

	if (mkdir(FOLDER, 0755) && errno != EEXIST)
		fail(FOLDER);
	if (mount("tmpfs", FOLDER, "tmpfs", 0, "huge=always"))
		fail("mount()");
	file = open(FOLDER "/file", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file < 0 || ftruncate(file, FILE_BYTES))
		fail("open()");
	begin();
	first = map_file(file, 0);
	touch(first, FILE_BYTES, PAGE);
	tell("first_mapping", smaps_kib("ShmemPmdMapped") / (HUGEPAGE / KIB), "hugepages");
	second = map_file(file, FROM);
	touch(second, FILE_BYTES - FROM, PAGE);
	tell("both_mappings", smaps_kib("ShmemPmdMapped") / (HUGEPAGE / KIB), "hugepages");
	end();
	unmap(first, FILE_BYTES);
	unmap(second, FILE_BYTES - FROM);
	close(file);
	if (umount(FOLDER))
		fail("umount()");
}
