// SPDX-License-Identifier: MIT
//! x
