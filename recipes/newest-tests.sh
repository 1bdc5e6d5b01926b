#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the programs that try the newest kernel: static, so that an initramfs of a few files holds them.
# In: /main (the checkout); out: /out.
set -eu
cd /main/tests/newest
for name in cost places; do
	gcc -O2 -Wall -Wextra -Werror -static-pie -o "/out/$name" "$name.c"
	strip "/out/$name"
done
