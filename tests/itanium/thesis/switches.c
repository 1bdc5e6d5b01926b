// SPDX-License-Identifier: MIT
#include "../boot/init.h"

PROGRAM(switches)
{
	return relay(96, 0, rounds);
}
