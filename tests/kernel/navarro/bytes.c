// SPDX-License-Identifier: MIT
/* As the adversary, but the program has something to do with its memory, if not much. */
#include "count.h"

EXPERIMENT(bytes)
{
	enum { BYTES = 8 * HUGEPAGE };
	char *at = map(BYTES);

	touch(at, BYTES, 1);
	tell_memory();
	unmap(at, BYTES);

	begin();
	at = map(BYTES);
	touch(at, BYTES, 1);
	unmap(at, BYTES);
	end();
}
