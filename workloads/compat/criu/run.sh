#!/bin/sh
# SPDX-License-Identifier: MIT
# CRIU dumps a process, which ends; restores it; and it goes on: its memory is what it was, and its heap grows.
set -eu
busybox ip link set lo up # CRIU binds a socket to its address to see what the kernel can do
export HOME=/tmp
mkdir -p /tmp/images /run/criu
# It is to hold no file that grows meanwhile, as the one that all output goes to does.
setsid ./grow /tmp/ready /tmp/go /tmp/answer </dev/null >/tmp/grow.log 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- &
pid=$!
until [ -s /tmp/ready ]; do sleep 0.1; done
criu dump -t "$pid" -D /tmp/images -o dump.log -v2 >/dev/null 2>&1 || {
	grep -a Error /tmp/images/dump.log | tail -n 20
	exit 1
}
[ ! -e "/proc/$pid/maps" ] || ! grep -q grow "/proc/$pid/cmdline"
echo "image_kib: $(du -k /tmp/images | cut -f1)"
criu restore -d -D /tmp/images -o restore.log -v2 >/dev/null 2>&1 || {
	grep -a Error /tmp/images/restore.log | tail -n 20
	exit 1
}
: >/tmp/go
tries=0
until [ -s /tmp/answer ]; do
	tries=$((tries + 1))
	[ $tries -lt 300 ] || exit 1
	sleep 0.1
done
cat /tmp/answer
