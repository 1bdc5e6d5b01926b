// SPDX-License-Identifier: MIT
#include "../boot/init.h"

// As workloads/tlb-overflow does: eight cells in each of 64 regions of 2 MiB, in one cycle of random order.
PROGRAM(overflow)
{
	enum { REGION = 2 << 20, REGIONS = 64, CELLS = 8 * REGIONS, LINE = 64 };
	char *all = reserve((word)REGIONS * REGION);
	static word *cells[CELLS];
	word seed = 1;

	for (word i = 0; i < CELLS; i++)
		cells[i] = (word *)(all + i / 8 * REGION + i % (REGION / PAGE) * PAGE + i % (PAGE / LINE) * LINE);
	for (word i = CELLS - 1; i; i--) {
		word *swapped = cells[i], other;

		seed = seed * 6364136223846793005 + 1442695040888963407;
		other = (seed >> 33) % i;
		cells[i] = cells[other];
		cells[other] = swapped;
	}
	for (word i = 0; i < CELLS; i++)
		*cells[i] = (word)cells[(i + 1) % CELLS];
	for (rounds *= CELLS; rounds; rounds--)
		cells[0] = *(word *volatile *)cells[0];
	return 1;
}
