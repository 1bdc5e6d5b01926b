// SPDX-License-Identifier: MIT
/*
 * One page in 512, as of a file that is mapped and written here and there: how much memory that takes, and how much is
 * written out when it has to go. Here it is anonymous memory, and goes to swap. Linux 6.12 writes no page of zeros
 * there, so that of a hugepage, too, only what the program wrote goes out: the difference is in memory alone.
 */
#include "count.h"

#include <sys/mman.h>

EXPERIMENT(sparse)
{
	enum { BYTES = 50 * HUGEPAGE };
	char *at = map(BYTES);
	long written;

	begin();
	touch(at, BYTES, HUGEPAGE);
	end();
	tell_memory();
	written = vmstat("pswpout");
	if (madvise(at, BYTES, MADV_PAGEOUT))
		fail("MADV_PAGEOUT");
	tell("written_out", vmstat("pswpout") - written, "pages");
	tell("left", smaps_kib("Anonymous"), "KiB");
}
