#!/bin/sh
# SPDX-License-Identifier: MIT
# Compiles a preprocessed unit with the distribution's compiler proper and checks what came out.
set -eu

cc1=/usr/libexec/gcc/x86_64-linux-gnu/14/cc1

fail() {
	echo "run.sh: $1" >&2
	exit "$2"
}

[ $# -eq 3 ] || fail "got $# words, expected: run.sh UNIT FUNCTIONS LEVEL" 2
[ -r "$1" ] || fail "$1: no such unit" 2
[ -x "$cc1" ] || fail "$cc1: not found; install cpp-14 in the guest" 1

# Without -fno-ident the assembly would name the compiler's build, and so would its checksum.
"$cc1" -quiet -fpreprocessed "$3" -fno-ident -o /tmp/unit.s "$1"

functions=$(grep -c '^step[0-9]*:$' /tmp/unit.s) || fail "/tmp/unit.s: no function in it" 1
[ "$functions" = "$2" ] || fail "/tmp/unit.s: got $functions functions, expected $2" 1
sum=$(sha256sum </tmp/unit.s)
echo "functions: $functions"
echo "assembly_lines: $(wc -l </tmp/unit.s)"
echo "answer: ${sum%% *}"
rm /tmp/unit.s
