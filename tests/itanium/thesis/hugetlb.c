// SPDX-License-Identifier: MIT
#include "../boot/init.h"

PROGRAM(hugetlb)
{
	enum { BYTES = 64 << 20, TOUCHES = 65536 };
	char *all = reserve_huge(BYTES);

	if ((long)all < 0 && (long)all > -4096) // an error: the pool has no pages
		return 0;
	touch(all, BYTES);
	at_random(all, BYTES, TOUCHES, rounds);
	return 1;
}
