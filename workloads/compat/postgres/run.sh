#!/bin/sh
# SPDX-License-Identifier: MIT
# A PostgreSQL server on a local socket: pgbench fills it and works on it, and the sums of its tables must agree.
# The server stays, as a service does. It does not run as root.
set -eu
scale=$1 clients=$2 transactions=$3
export PATH="/usr/lib/postgresql/17/bin:$PATH" HOME=/tmp PGHOST=/tmp PGUSER=postgres PGDATABASE=postgres
as() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
mkdir -m 700 /tmp/data
chown 65534:65534 /tmp/data
as initdb -D /tmp/data -U postgres -A trust --no-sync --locale=C -E UTF8 >/tmp/initdb.log 2>&1 || {
	cat /tmp/initdb.log
	exit 1
}
as pg_ctl -D /tmp/data -w -t 300 -l /tmp/data/log -o "-c listen_addresses= -c unix_socket_directories=/tmp \
	-c fsync=off -c shared_buffers=32MB -c jit=off -c autovacuum=off" start >/tmp/start.log 2>&1 || {
	cat /tmp/start.log /tmp/data/log
	exit 1
}
pgbench -i -q -s "$scale" >/tmp/fill.log 2>&1
pgbench -n -c "$clients" -j 2 -t "$transactions" --random-seed 1 >/tmp/bench.log 2>&1
sort="select sum(hashtext(filler || aid)) from (select * from pgbench_accounts order by filler, abalance) as sorted"
psql -qAtc "set work_mem = '64MB'" -c "$sort" >/tmp/sorted
agree="select count(*) || ' ' || (sum(delta) = (select sum(abalance) from pgbench_accounts)
	and sum(delta) = (select sum(bbalance) from pgbench_branches)) from pgbench_history"
echo "rows: $(psql -qAtc 'select count(*) from pgbench_accounts')"
echo "answer: $(psql -qAtc "$agree") $(cat /tmp/sorted)"
