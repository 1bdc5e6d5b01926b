#!/bin/sh
# SPDX-License-Identifier: MIT
# Starts a program in the background and ends once it has said its answer; the program stays, as a service does.
set -eu
mkfifo /tmp/said
"$@" >/tmp/said 2>&1 &
while read -r line; do
	echo "$line"
	case $line in
	answer:*) exit 0 ;;
	esac
done </tmp/said
echo "it ended without an answer" >&2
wait $!
exit 1
