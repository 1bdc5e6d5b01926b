// SPDX-License-Identifier: MIT
#pragma once
#include <asm/errno.h>
extern int errno;
