# SPDX-License-Identifier: MIT
"""Results to a terminal table, CSV files and one page."""

from __future__ import annotations

import argparse
from collections import Counter

from abh import arguments, output, paths
from abh.errors import Status

HELP = "turn the results into a table, CSV files, one HTML page, and pictures"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    results = parser.add_argument(
        "--results",
        type=arguments.folder,
        default=paths.MEASURED,
        metavar="DIR",
        help="result files to read (default: analysis/measured)",
    )
    out = parser.add_argument(
        "--out",
        type=arguments.new_folder,
        default=paths.REPORT_OUT,
        metavar="DIR",
        help="where page and CSVs go (default: analysis/out)",
    )
    pictures = parser.add_argument(
        "--svg",
        type=arguments.new_folder,
        metavar="DIR",
        help="also write each picture as an SVG file with its own style, for where no page is around it",
    )
    parser.add_argument(
        "--record-roots",
        action="store_true",
        help="for results that are to be committed: write the packages of the roots they were made with to "
        "docs/results/roots",
    )
    for action in (results, out, pictures):
        arguments.completed(action, "directory")
    output.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Write everything, then print the table and where the page is. A failed cell is a finding, not an error here."""
    # Imported here so that `abh --help` does not wait for them.
    from rich.console import Console

    from abh.build import moved
    from abh.files import write_csv, write_text
    from abh.report import figures, page, svg, terminal
    from abh.report.study import read_study

    with output.report(args.json) as report:
        study = read_study(args.results)
        found = figures.find()
        tables = {args.out / f"{figure.name}.csv": figure.table(study) for figure in found}
        tables[args.out / "values.csv"] = figures.all_values(study)
        for path, rows in tables.items():
            write_csv(path, rows)
        pictures = {args.svg / f"{each.name}.svg": drawn for each in found if args.svg and (drawn := each.chart(study))}
        for path, drawn in pictures.items():
            write_text(path, svg.standalone(drawn))
        target = args.out / "report.html"
        write_text(target, page.render(study, found))
        console = Console(highlight=False)
        if study.results:
            terminal.show(study, console)
        recorded = moved.record(moved.digests_of(study.results.values())) if args.record_roots else []
        for path in recorded:
            console.print(f"Record: {path}", soft_wrap=True, markup=False)
        console.print(f"Page: {target.resolve()}", soft_wrap=True, markup=False)
        outcomes = Counter(result.outcome for result in study.results.values())
        report.update(
            page=str(target.resolve()),
            tables=[str(path.resolve()) for path in tables],
            pictures=[str(path.resolve()) for path in pictures],
            results=len(study.results),
            outcomes=dict(outcomes),
        )
    return Status.SUCCESS
