// SPDX-License-Identifier: MIT
#include "../boot/init.h"

PROGRAM(cover)
{
	enum { BYTES = 64 << 20, TOUCHES = 65536 };
	char *all = reserve(BYTES);
	word at = 1;

	touch(all, BYTES);
	for (; rounds; rounds--) {
		for (int i = 0; i < TOUCHES; i++) {
			at = at * 6364136223846793005 + 1442695040888963407;
			all[at >> 33 & (BYTES - 1)]++;
		}
	}
	return 1;
}
