// SPDX-License-Identifier: MIT
#pragma once
#include <linux/resource.h>
int getrlimit(int of, struct rlimit *limits);
