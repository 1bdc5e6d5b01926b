#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the plugin that counts what happens in the marked region.
# In: /main (the checkout), /in/qemu; out: /out.
set -eu
# shellcheck disable=SC2046 # flags are words
gcc -shared -fPIC -O2 -Wall -Wextra -Werror -fvisibility=hidden $(pkg-config --cflags glib-2.0) \
	-I/in/qemu/include -I/main/agent -o /out/region.so /main/hypervisor/qemu/plugin/region.c
