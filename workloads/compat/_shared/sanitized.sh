#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs a program that was built with a sanitizer: its work, and the mistake that this sanitizer is to report.
set -eu
work=$(./threads) || {
	echo "the work failed: $work"
	exit 1
}
if said=$(./threads "$1" 2>&1); then
	echo "a mistake was not reported: $said"
	exit 1
fi
case $said in
*"$2"*) ;;
*)
	echo "not the report expected: $said"
	exit 1
	;;
esac
echo "$work"
