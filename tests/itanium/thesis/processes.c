// SPDX-License-Identifier: MIT
#include "../boot/init.h"

PROGRAM(processes)
{
	return relay(48, 10, rounds);
}
