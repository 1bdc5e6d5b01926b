// SPDX-License-Identifier: MIT
#pragma once
#include <asm/fcntl.h>
int open(const char *path, int flags, ...);
