// SPDX-License-Identifier: MIT
/* What must hold for the slack that alignment-based hugepages put around a mapping. */
#include <string.h>

#include "../cases.h"
#include "slack.h"

extern const struct test slack_extended[], slack_in_the_way[], slack_limits[], slack_pieces[], slack_margins[],
	slack_release[], slack_told[], slack_foreign[], slack_counters[], slack_nodes[], slack_stale[], slack_unused[],
	slack_unmapped[], slack_named[];

const struct test *const themes[] = { slack_extended, slack_in_the_way, slack_limits,  slack_pieces,   slack_margins,
				      slack_release,  slack_told,       slack_foreign, slack_counters, slack_nodes,
				      slack_stale,    slack_unmapped,   slack_named,   slack_unused,   NULL };

int main(int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[1], "case"))
		write_file(KNOBS "unused_kib", NO_BOUND);
	return run_tests(argc, argv);
}
