// SPDX-License-Identifier: MIT
/* What the kernel tells, and its own test. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

#include "../cases.h"
#include "slack.h"

static void tracepoint(void)
{
	char wanted[96];
	char *at;

	if (write_file(TRACE "events/abh/abh_mmap/enable", "1"))
		skips("the kernel has no such tracepoint");
	at = map(ODD);
	mmap(NULL, ODD, RW, PLAIN | MAP_STACK, -1, 0);
	write_file(TRACE "events/abh/abh_mmap/enable", "0");
	snprintf(wanted, sizeof(wanted), "abh_mmap: addr=%p len=%#lx abh_mmap_extended", (void *)at, ODD);
	if (trace_has(wanted) != on() || trace_has("abh_mmap_excluded") != on())
		fails("the trace tells otherwise than \"%s\"", wanted);
}

static void arithmetic(void)
{
	kunit("abh_mmap", 12);
}

const struct test slack_told[] = {
	{ "tracepoint of mappings", tracepoint, true },
	{ "KUnit of mappings", arithmetic, true },
	{ NULL, NULL, false },
};
