// SPDX-License-Identifier: MIT
/* As the adversary, but the program has something to do with its memory, if not much. */
#include "count.h"

static void touch_bytes(char *at, size_t bytes)
{
	touch(at, bytes, 1);
}

EXPERIMENT(bytes)
{
	count_use(8 * HUGEPAGE, touch_bytes);
}
