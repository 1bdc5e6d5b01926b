// SPDX-License-Identifier: MIT
#pragma once
typedef long time_t;
