# SPDX-License-Identifier: MIT
"""Write the stub of a workload: a small program that already runs, and comments that say what to change."""

from __future__ import annotations

import argparse
from pathlib import Path

from abh import paths
from abh.errors import AbhError, Status

HELP = "write the stub of a workload"

_TOML = """\
# SPDX-License-Identifier: MIT
# One sentence: what the program does to memory. It is what `abh list` shows.
purpose     = "Stub: writes a table of random numbers and adds them up."
# The paper's row it stands for, or why it is here. If it stands for a row of Table 1, name the row too:
# counterpart = "403.gcc"
paper       = "none: a stub"
# Debian packages that it needs in the guest, and that its build needs beside a compiler:
# packages = ["redis-server"]
# build_packages = ["libsqlite3-dev"]
# Commands run in the build root, in this folder; {out} is where the program goes. Inputs are made here too.
build       = [["cc", "-O2", "-Wall", "-o", "{out}/@NAME@", "@NAME@.c"]]
# Run where {out} was. Placeholders: {seed}, {size}, and every parameter of the sizes below.
argv        = ["./@NAME@", "--rows", "{rows}", "--seed", "{seed}"]
seed        = 1
timeout_s   = 600 # of virtual time, in the guest
# What the program prints after checking its own work: one group, compared with the size's `answer`.
answer      = 'answer: ([0-9a-f]+)'
# smoke: seconds in the emulator, used by tests. paper: enough memory that hugepages matter.
size.smoke  = { rows = 1000, answer = "@SMOKE@" }
size.paper  = { rows = 10000000, answer = "@PAPER@" }
# An input made by `build`, one for each size that has one:
# input.smoke = { file = "smoke.txt", sha256 = "..." }
# Numbers in the output, if any: a pattern with one group, its unit, and whether higher or lower is better.
metric.rows = { pattern = 'rows: (\\d+)', unit = "count", better = "higher" }
"""

_SOURCE = """\
/* SPDX-License-Identifier: MIT */
/* Writes a table of random numbers and adds them up: replace this by the program, keep the options and output. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	uint64_t rows, state, sum = 0, *table;

	if (argc != 5 || strcmp(argv[1], "--rows") || strcmp(argv[3], "--seed")) {
		fprintf(stderr, "usage: %s --rows N --seed N\\n", argv[0]);
		return 2;
	}
	rows = strtoull(argv[2], NULL, 10);
	state = strtoull(argv[4], NULL, 10);
	table = malloc(rows * sizeof(*table));
	if (!table) {
		perror("malloc");
		return 1;
	}
	for (uint64_t i = 0; i < rows; i++) { /* Knuth's MMIX generator */
		state = state * 6364136223846793005u + 1442695040888963407u;
		table[i] = state;
	}
	for (uint64_t i = rows; i-- > 0;)
		sum = sum * 31 + table[i];
	printf("rows: %" PRIu64 "\\nanswer: %" PRIx64 "\\n", rows, sum);
	free(table);
	return 0;
}
"""

_SAMPLE = "rows: 1000\nanswer: @SMOKE@\n"
_ANSWERS = {"@SMOKE@": "6d3e307e35b8c8a4", "@PAPER@": "ee739b986576d240"}  # printed by the stub with seed 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The name."""
    parser.add_argument("name", help="kebab-case, as my-program")


def run(args: argparse.Namespace) -> int:
    """Write the stub and say what comes next."""
    folder = write_stub(args.name, paths.WORKLOADS)
    shown = folder.relative_to(paths.CHECKOUT)
    print(f"wrote {shown}/\nnext: edit {shown}/workload.toml, then: abh run {args.name}@native~thp --size smoke")
    return 0


def write_stub(name: str, workloads: Path) -> Path:
    """Write the stub's files; refuses an ill-formed name and an existing folder."""
    from abh.schema.strict import KEBAB, kebab  # not above: `abh --help` need not wait for it

    if not KEBAB.fullmatch(name):
        raise AbhError(
            "ill-formed name of a workload",
            got=name,
            expected="kebab-case: small letters and digits, joined by -",
            next_step=f"abh new-workload {kebab(name)}",
            status=Status.USAGE,
        )
    folder = workloads / name
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise AbhError(
            "there is something of this name already", where=folder, next_step="choose another name, or remove it"
        ) from None
    except OSError as error:
        raise AbhError(
            "cannot make the folder", where=folder, got=error.strerror, next_step="check the permissions"
        ) from error
    for file, text in (("workload.toml", _TOML), (f"{name}.c", _SOURCE), ("sample-output.txt", _SAMPLE)):
        for mark, value in {**_ANSWERS, "@NAME@": name}.items():
            text = text.replace(mark, value)
        (folder / file).write_text(text, encoding="utf-8")
    return folder
