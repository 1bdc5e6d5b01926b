#!/bin/sh
# SPDX-License-Identifier: MIT
# Puts SQLite together as one file, as its authors advise.
# In: /src (SQLite); scratch: /obj; out: /out.
set -eu
cd /obj
/src/configure --disable-tcl --disable-readline
make sqlite3.c
cp sqlite3.c sqlite3.h /out
