#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds SQLite over the C library of the Itanium machine's workloads.
# In: /main (the checkout), /in/ia64-gcc, /in/sqlite-source; scratch: /obj; out: /out.
set -eu
cd /obj
# No files, threads, libraries to load or local time: there is nothing below that has them.
flags="-DSQLITE_OS_OTHER=1 -DSQLITE_TEMP_STORE=3 -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION
	-DSQLITE_OMIT_LOCALTIME -DSQLITE_OMIT_WAL"
compile() {
	# shellcheck disable=SC2086 # words
	/in/ia64-gcc/bin/ia64-linux-gnu-gcc -std=gnu17 -O2 -ffreestanding -isystem /main/agent/ia64/include \
		-I /in/sqlite-source $flags -c -o "$1" "$2"
}
compile sqlite3.o /in/sqlite-source/sqlite3.c
compile system.o /main/agent/ia64/sqlite.c
ia64-linux-gnu-ar rcsD /out/libsqlite3.a sqlite3.o system.o
cp /in/sqlite-source/sqlite3.h /out
