#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the agents that run inside the machines: static, so that they run in every root.
# In: /main (the checkout); out: /out.
set -eu
for name in abh-init abh-watch abh-fragment xen-superpages; do
	gcc -O2 -Wall -Wextra -Werror -static -o "/out/$name" "/main/agent/$name.c"
	strip "/out/$name"
done
cp /main/agent/init-host /main/agent/xen-leaves /out/
chmod 755 /out/*
