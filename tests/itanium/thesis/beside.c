// SPDX-License-Identifier: MIT
#include "../boot/init.h"

PROGRAM(beside)
{
	enum { APART = 256 << 10, BYTES = 512 * APART };
	char *all = reserve(BYTES);

	for (; rounds; rounds--) {
		for (word at = rounds * PAGE % APART; at < BYTES; at += APART)
			all[at] = 1;
	}
	return 1;
}
