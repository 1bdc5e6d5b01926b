// SPDX-License-Identifier: MIT
/*
 * A program that wants hugepages, after others have filled memory with small files: four times, each a process of its
 * own, as Navarro's FFTW, in each of which khugepaged, kswapd and compaction may work for a minute. The files are read
 * once before, and once after, which tells how many of them had to go.
 */
#include "count.h"
#include "filled.h"

EXPERIMENT(fragmentation)
{
	mount_files();
	tell("contiguity_empty", contiguity(), "of 1000");
	tell("files_read", fill_memory(), "KiB");
	tell("contiguity_filled", contiguity(), "of 1000");
	begin();
	want_hugepages();
	end();
	tell("contiguity_after", contiguity(), "of 1000");
	tell("files_read_again", fill_memory(), "KiB");
	unmount_files();
}
