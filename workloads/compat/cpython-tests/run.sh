#!/bin/sh
# SPDX-License-Identifier: MIT
# CPython's own tests named, as its developers run them; the answer is how many files of them passed.
set -eu
export HOME=/tmp PYTHONDONTWRITEBYTECODE=1
cd /tmp
python3 -m test --timeout 600 --tempdir /tmp "$@" >/tmp/suite.log 2>&1 || {
	tail -n 60 /tmp/suite.log
	exit 1
}
ran=$(sed -n 's/^Total tests: run=\([0-9,]*\).*/\1/p' /tmp/suite.log)
echo "tests: $(echo "$ran" | tr -d ,)"
echo "answer: $(sed -n 's/^Result: \(.*\)$/\1/p' /tmp/suite.log)"
