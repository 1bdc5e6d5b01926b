#!/bin/sh
# SPDX-License-Identifier: MIT
# Transforms a catalogue with Xalan-C, whose stylesheet checks the totals, and checks what came out.
set -eu

fail() {
	echo "run.sh: $1" >&2
	exit "$2"
}

[ $# -eq 2 ] || fail "got $# words, expected: run.sh CATALOGUE BOOKS" 2
[ -r "$1" ] || fail "$1: no such catalogue" 2
command -v xalan >/dev/null || fail "xalan: not found; install it in the guest" 1

xalan -in "$1" -xsl report.xsl -out /tmp/report.html

books=$(grep -c '^<li id="b' /tmp/report.html) || fail "/tmp/report.html: no book in it" 1
[ "$books" = "$2" ] || fail "/tmp/report.html: got $books books, expected $2" 1
sum=$(sha256sum </tmp/report.html)
echo "books: $books"
echo "report_bytes: $(wc -c </tmp/report.html)"
echo "answer: ${sum%% *}"
rm /tmp/report.html
