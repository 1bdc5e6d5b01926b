#!/bin/sh
# SPDX-License-Identifier: MIT
# Memcheck watches threads that make no mistake, and then finds the mistake of which it is told nothing.
set -eu
valgrind -q --error-exitcode=9 --leak-check=full ./threads 2>&1
if said=$(valgrind -q --error-exitcode=9 ./threads use-after-free 2>&1); then
	echo "a mistake was not reported: $said"
	exit 1
fi
case $said in
*"Invalid read of size 1"*) ;;
*)
	echo "not the report expected: $said"
	exit 1
	;;
esac
