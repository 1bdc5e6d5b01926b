// SPDX-License-Identifier: MIT
/* What must hold for the slack that alignment-based hugepages put around a mapping. */

#include "../cases.h"
#include "slack.h"

extern const struct test slack_extended[], slack_in_the_way[], slack_limits[], slack_pieces[], slack_margins[],
	slack_told[];

const struct test *const themes[] = { slack_extended, slack_in_the_way, slack_limits, slack_pieces,
				      slack_margins,  slack_told,       NULL };

int main(int argc, char **argv)
{
	/* It would make hugepages as well, at any time: faults are compared. */
	write_file("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", "100000000");
	return run_tests(argc, argv);
}
