// SPDX-License-Identifier: MIT
#pragma once
#include <linux/time.h>
typedef long time_t;
int clock_gettime(int clock, struct timespec *now);
time_t time(time_t *at);
