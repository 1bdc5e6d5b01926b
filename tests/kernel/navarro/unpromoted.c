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
	count_use(16 * HUGEPAGE, touch_most);
}
