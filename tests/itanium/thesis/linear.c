// SPDX-License-Identifier: MIT
#include "../boot/init.h"

PROGRAM(linear)
{
	enum { BYTES = 128 << 20 };
	char *all = reserve(BYTES);

	for (; rounds; rounds--)
		touch(all, BYTES);
	return 1;
}
