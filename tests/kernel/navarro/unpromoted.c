// SPDX-License-Identifier: MIT
/* There is no switch for promotion, but what is never whole is never promoted: the last page of each hugepage is left.
 */
#include "count.h"

static void touch_most(char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += HUGEPAGE)
		touch(at + i, HUGEPAGE - PAGE, PAGE);
}

EXPERIMENT(unpromoted)
{
	enum { BYTES = 16 * HUGEPAGE };
	char *at = map(BYTES);

	touch_most(at, BYTES);
	tell_memory();
	unmap(at, BYTES);

	begin();
	at = map(BYTES);
	touch_most(at, BYTES);
	unmap(at, BYTES);
	end();
}
