// SPDX-License-Identifier: MIT
#include "../boot/init.h"

PROGRAM(colliding)
{
	enum { PAGES = 512, APART = 32 << 20 };
	char *all = reserve((word)PAGES * APART);

	for (; rounds; rounds--) {
		for (word page = 0; page < PAGES; page++)
			all[page * APART] = 1;
	}
	return 1;
}
