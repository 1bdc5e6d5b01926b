#!/bin/sh
# SPDX-License-Identifier: MIT
# A Redis server saves in the background while its keys are written over; what was saved last is what a second server
# reads. The first server stays, as a service does.
set -eu
keys=$1 bytes=$2 writes=$3
ask() { redis-cli -s /tmp/redis.socket "$@"; }
serve() { # as it would be without a word on hugepages: it would switch them off for itself
	redis-server --daemonize yes --port 0 --unixsocket "/tmp/$1.socket" --save "" --dir /tmp --logfile "/tmp/$1.log" \
		--pidfile "/tmp/$1.pid" --dbfilename "$1.rdb" --disable-thp no --jemalloc-bg-thread no \
		--enable-debug-command local >/dev/null
	tries=0
	until [ "$(redis-cli -s "/tmp/$1.socket" ping 2>/dev/null)" = PONG ]; do # not before it has read what was saved
		tries=$((tries + 1))
		[ $tries -lt 100 ] || exit 1
		sleep 0.2
	done
}
serve redis
ask debug populate "$keys" key "$bytes" >/dev/null
ask bgsave >/dev/null
i=0
while [ $i -lt "$writes" ]; do
	echo "SETRANGE key:$((i * 7919 % keys)) 0 round$i"
	i=$((i + 1))
done | ask --pipe >/dev/null
while ask info persistence | grep -q '^rdb_bgsave_in_progress:1'; do sleep 0.1; done
ask info persistence | grep -q '^rdb_last_bgsave_status:ok' || {
	echo "the background save failed"
	exit 1
}
ask save >/dev/null
mv /tmp/redis.rdb /tmp/second.rdb
digest=$(ask debug digest)
serve second
second=$(redis-cli -s /tmp/second.socket debug digest)
redis-cli -s /tmp/second.socket shutdown nosave
[ "$second" = "$digest" ] || {
	echo "what was saved is not what there is: $second, $digest"
	exit 1
}
echo "keys: $(ask dbsize)"
echo "answer: $digest"
