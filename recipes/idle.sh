#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds a load whose memory is looked at while it is idle. Dynamic, so that any malloc can take the place of its own.
# In: /main (the checkout); out: /out.
set -eu
gcc -O2 -Wall -Wextra -Werror -pthread -o /out/idle /main/abh/compare/idle.c
