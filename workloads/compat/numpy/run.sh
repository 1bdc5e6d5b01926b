#!/bin/sh
# SPDX-License-Identifier: MIT
# Arrays of a few MiB, and those of NumPy's own tests that are about memory.
set -eu
python3 arrays.py "$1" "$2"
numpy=/usr/lib/python3/dist-packages/numpy
sh suite.sh python3 -m pytest --noconftest -q -p no:cacheprovider -p no:warnings "$numpy/_core/tests/test_memmap.py" \
	"$numpy/_core/tests/test_mem_overlap.py" "$numpy/lib/tests/test_stride_tricks.py" -m "not slow" |
	sed 's/^answer/suite/'
