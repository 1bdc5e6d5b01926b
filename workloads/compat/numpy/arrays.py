# SPDX-License-Identifier: MIT
"""Arrays as programs have them: many of a few MiB, which NumPy advises hugepages for, views, temporaries, growth."""

import sys

import numpy

count, seed = int(sys.argv[1]), int(sys.argv[2])
draw = numpy.random.default_rng(seed)
# Of 3.5 and 4.5 MiB: more than one hugepage, and no whole number of them.
arrays = [draw.integers(0, 1 << 20, (7 if n % 2 else 9) << 16, dtype=numpy.int64) for n in range(count)]
total = 0
for n, array in enumerate(arrays):
    other = arrays[(n * 7 + 1) % count]
    size = min(array.size, other.size)
    array[:size] += other[:size][::-1] * 3
    total = (total + int(array[:: n + 1].sum())) % (1 << 61)
arrays = arrays[::3]
matrix = numpy.stack([array[:65536] for array in arrays])
total = (total * 31 + int(numpy.sort(matrix, axis=0)[0].sum())) % (1 << 61)
joined = numpy.concatenate(arrays)
joined.resize(joined.size * 5 // 4, refcheck=False)
print(f"answer: {(total * 31 + int(joined.sum())) % (1 << 61)}")
