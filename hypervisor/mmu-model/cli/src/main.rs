// SPDX-License-Identifier: MIT
//! x
fn main() {}
