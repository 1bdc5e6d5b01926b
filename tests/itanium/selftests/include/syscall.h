// SPDX-License-Identifier: MIT
#pragma once
#include <asm/unistd.h>
long syscall(long number, ...);
