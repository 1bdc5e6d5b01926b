// SPDX-License-Identifier: MIT
#pragma once
#include <time.h>
