#!/bin/sh
# SPDX-License-Identifier: MIT
# Compiles, assembles and links a unit with the compiler named, and runs what came out: that is the check.
set -eu
"$@" -o /tmp/unit unit.i -lm
/tmp/unit
