// SPDX-License-Identifier: MIT
/* Slack, and mappings that have it. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "../cases.h"
#include "slack.h"

long slack_kib(void)
{
	return on() ? of_process("AbhSlack") : 0;
}

char *with_slack(size_t bytes)
{
	char *at = map(on() ? bytes : bytes + HUGE);

	if (!on())
		munmap(at + bytes, HUGE);
	fill(at, bytes, 1);
	if (on() && !is_mapped(at + bytes))
		fails("there is no slack behind %zu KiB", bytes / KIB);
	return at;
}

void bound_to(unsigned long bytes)
{
	if (on() && write_file(KNOBS "unused_kib", "%lu", bytes / KIB))
		fails("unused_kib cannot be set: %s", strerror(errno));
}
