// SPDX-License-Identifier: MIT
#include "../boot/init.h"

PROGRAM(transposition)
{
	enum { SIDE = 1024 };
	double (*from)[SIDE] = (void *)reserve(2 * sizeof(*from) * SIDE), (*to)[SIDE] = from + SIDE;

	for (; rounds; rounds--) {
		for (int row = 0; row < SIDE; row++) {
			for (int column = 0; column < SIDE; column++)
				to[row][column] = from[column][row];
		}
		__asm__ volatile("" ::: "memory");
	}
	return 1;
}
