// SPDX-License-Identifier: MIT
#pragma once
static inline double fabs(double x)
{
	return __builtin_fabs(x);
}
