#!/bin/sh
# SPDX-License-Identifier: MIT
# db_bench writes keys in random order, has them compacted, and reads them all again in order, each once.
set -eu
keys=$1 reads=$2
bench() {
	db_bench --db=/tmp/db --num="$keys" --value_size=400 --write_buffer_size=8388608 --cache_size=16777216 \
		--max_background_jobs=2 --compression_type=none --verify_checksum=true --seed=1 "$@" 2>&1
}
bench --benchmarks=fillrandom,overwrite,compact >/tmp/filled || {
	cat /tmp/filled
	exit 1
}
bench --use_existing_db=1 --reads="$reads" --benchmarks=readrandom,readseq,verifychecksum >/tmp/read || {
	cat /tmp/read
	exit 1
}
if grep -i 'corrupt\|error' /tmp/filled /tmp/read; then
	exit 1
fi
found=$(tr '\r' '\n' </tmp/read | sed -n 's/.*readrandom.*(\([0-9]* of [0-9]* found\)).*/\1/p')
echo "answer: $found"
