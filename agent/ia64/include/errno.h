// SPDX-License-Identifier: MIT
#pragma once
enum { ERANGE = 34 };
extern int errno;
