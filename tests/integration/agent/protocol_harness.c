// SPDX-License-Identifier: MIT
/*
 * Runs the agents' parser on what a test gives it.
 *
 *   lines FILE LIMIT       each line of a cell as <key>|<rest>
 *   value FILE KEY         the number after KEY in a table
 *   hugepages FILE -       free hugepages in a table like /proc/buddyinfo
 */
#include <stdlib.h>
#include <sys/stat.h>

/* A test cannot make a disk without root: it says that the file is one. */
#undef S_ISBLK
#define S_ISBLK(mode) ((void)(mode), getenv("AS_DISK") != NULL)

#include "protocol.h"

int main(int argc, char **argv)
{
	char *text =
		argc == 4 ? abh_read_file(argv[2], strcmp(argv[1], "lines") ? 65536 : (size_t)atol(argv[3])) : NULL;
	struct abh_line line;

	if (!text)
		return 3;
	if (!strcmp(argv[1], "value")) {
		printf("%lld\n", abh_table_value(text, argv[3]));
		return 0;
	}
	if (!strcmp(argv[1], "hugepages")) {
		printf("%lld\n", abh_free_hugepages(text));
		return 0;
	}
	for (char *rest = text; abh_next_line(&rest, &line);)
		printf("%s|%s\n", line.key, line.rest);
	free(text);
	return 0;
}
