// SPDX-License-Identifier: MIT
#pragma once
#include <stddef.h>
typedef long ssize_t, off_t;
typedef int pid_t;
