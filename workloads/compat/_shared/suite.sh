#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs a test suite; the answer is how many of its tests passed, and none may fail.
set -eu
export HOME=/tmp PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1
cd /tmp
"$@" >/tmp/suite.log 2>&1 || {
	tail -n 60 /tmp/suite.log
	exit 1
}
echo "answer: $(sed -n 's/^.*\b\([0-9][0-9]*\) passed\b.*$/\1/p' /tmp/suite.log | tail -n 1)"
