// SPDX-License-Identifier: MIT
/* The least work for a page that a program can do: all else is what its memory costs. */
#include "count.h"

static void touch_pages(char *at, size_t bytes)
{
	touch(at, bytes, PAGE);
}

EXPERIMENT(adversary)
{
	count_use(16 * HUGEPAGE, touch_pages);
}
