#!/bin/sh
# SPDX-License-Identifier: MIT
# gdb runs a program to a place, keeps its core, and then reads the core alone: what it says must be what there was.
set -eu
export HOME=/tmp
gdb -nx -batch -ex 'set startup-with-shell off' -ex 'break filled' -ex run -ex 'gcore /tmp/core' ./table >/tmp/gdb.log 2>&1 || {
	cat /tmp/gdb.log
	exit 1
}
[ -s /tmp/core ] || {
	cat /tmp/gdb.log
	exit 1
}
echo "core_kib: $(du -k /tmp/core | cut -f1)"
gdb -nx -batch -ex 'set max-value-size unlimited' -ex 'printf "answer: %lu %u %u %u\n", sum, blocks[19999][0], blocks[19999][249], mappings[3][916480]' \
	./table /tmp/core 2>&1 | grep -a '^answer\|rror'
