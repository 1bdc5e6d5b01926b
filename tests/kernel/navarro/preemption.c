// SPDX-License-Identifier: MIT
/*
 * Steps of a hugepage through more of them than there is memory for, several times over, a page further each time. All
 * that is touched has room: three quarters of memory. So what is reserved has to go for it, and nothing else.
 */
#include "count.h"

#include <unistd.h>

EXPERIMENT(preemption)
{
	size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) * PAGE, bytes = 2 * memory / HUGEPAGE * HUGEPAGE;
	long passes = PAGES * 3 / 8;
	char *at = map(bytes);

	tell("contiguity_before", contiguity(), "of 1000");
	begin();
	for (long pass = 0; pass < passes; pass++)
		touch(at + pass * PAGE, bytes - pass * PAGE, HUGEPAGE);
	end();
	tell_memory();
	tell("touched", passes * (long)(bytes / HUGEPAGE), "pages");
	unmap(at, bytes);
	tell("contiguity_after", contiguity(), "of 1000");
}
