// SPDX-License-Identifier: MIT
/* The least work for a page that a program can do: all else is what its memory costs. */
#include "count.h"

EXPERIMENT(adversary)
{
	enum { BYTES = 16 * HUGEPAGE };
	char *at = map(BYTES);

	touch(at, BYTES, PAGE);
	tell_memory();
	unmap(at, BYTES);

	begin();
	at = map(BYTES);
	touch(at, BYTES, PAGE);
	unmap(at, BYTES);
	end();
}
