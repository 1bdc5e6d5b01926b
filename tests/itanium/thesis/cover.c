// SPDX-License-Identifier: MIT
#include "../boot/init.h"

PROGRAM(cover)
{
	enum { BYTES = 64 << 20, TOUCHES = 65536 };
	char *all = reserve(BYTES);

	touch(all, BYTES);
	at_random(all, BYTES, TOUCHES, rounds);
	return 1;
}
