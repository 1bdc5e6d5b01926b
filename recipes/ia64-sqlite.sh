#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds SQLite as one file, as its authors advise, over the C library of the Itanium machine's workloads.
# In: /src (SQLite), /main (the checkout), /in/ia64-gcc; scratch: /obj; out: /out.
set -eu
cd /obj
/src/configure --disable-tcl --disable-readline
make sqlite3.c
# No files, threads, libraries to load or local time: there is nothing below that has them.
flags="-DSQLITE_OS_OTHER=1 -DSQLITE_TEMP_STORE=3 -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION
	-DSQLITE_OMIT_LOCALTIME -DSQLITE_OMIT_WAL"
for file in /obj/sqlite3.c /main/agent/ia64/sqlite.c; do
	# shellcheck disable=SC2086 # words
	/in/ia64-gcc/bin/ia64-linux-gnu-gcc -std=gnu17 -O2 -ffreestanding -isystem /main/agent/ia64/include -I /obj $flags \
		-c -o "/obj/$(basename "$file" .c).o" "$file"
done
mv sqlite.o system.o
ia64-linux-gnu-ar rcsD /out/libsqlite3.a sqlite3.o system.o
cp sqlite3.h /out
