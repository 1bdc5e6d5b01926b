// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#define PRId64 "ld"
#define PRIu64 "lu"
#define PRIx64 "lx"
