# SPDX-License-Identifier: MIT
"""Results to a terminal table, CSV files and one page."""

from __future__ import annotations

import argparse
from pathlib import Path

from abh import paths

HELP = "turn the results into a table, CSV files and one HTML page"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument(
        "--results",
        type=Path,
        default=paths.MEASURED,
        metavar="DIR",
        help="result files to read (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=paths.REPORT_OUT,
        metavar="DIR",
        help="where page and CSVs go (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Write everything, then print the table and where the page is. A failed cell is a finding, not an error here."""
    # Imported here so that `abh --help` does not wait for them.
    from rich.console import Console

    from abh.report import figures, page, terminal
    from abh.report.study import read_study
    from abh.report.write import write_csv, write_text

    study = read_study(args.results)
    found = figures.find()
    for figure in found:
        write_csv(args.out / f"{figure.name}.csv", figure.table(study))
    write_csv(args.out / "values.csv", figures.all_values(study))
    target = args.out / "report.html"
    write_text(target, page.render(study, found))
    console = Console(highlight=False)
    if study.results:
        terminal.show(study, console)
    console.print(f"Page: {target.resolve()}", soft_wrap=True, markup=False)
    return 0
