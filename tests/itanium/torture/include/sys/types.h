// SPDX-License-Identifier: MIT
#include <stddef.h>
