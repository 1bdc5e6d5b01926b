# SPDX-License-Identifier: MIT
"""The whole study: build, boot the machines once, run every cell, write the report."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from pathlib import Path

from abh import paths

HELP = "build everything, run every workload in every environment under every policy, report"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("--size", choices=("smoke", "paper"), default="smoke", help="default: %(default)s")
    parser.add_argument("--workload", action="append", metavar="NAME", help="only this one (repeatable)")
    parser.add_argument("--environment", action="append", metavar="NAME", help="only this one (repeatable)")
    parser.add_argument("--policy", action="append", metavar="NAME", help="only this one (repeatable)")
    parser.add_argument(
        "--group",
        metavar="NAME",
        default="",
        help="policies of this folder of vm-configs/policies, not the study's; results in a folder of its own",
    )
    parser.add_argument("--cores", type=int, default=2, help="cells at a time (default: %(default)s)")
    parser.add_argument(
        "--machine",
        choices=("emulated", "local"),
        default="emulated",
        help="local: this machine's own KVM, one cell at a time, results in a folder of their own",
    )
    parser.add_argument(
        "--mmu", metavar="CPU", help="with the MMU model of this processor; results in a folder of the processor's own"
    )
    parser.add_argument("--dry-run", action="store_true", help="say which cells would run")


def run(args: argparse.Namespace) -> int:
    """Prepare, run the workflow, report. The status is 1 if a cell failed, after everything else was done."""
    from filelock import FileLock, Timeout

    from abh.bench import cache, matrix, mmu, progress
    from abh.errors import AbhError

    names = matrix.select(args.workload, args.environment, args.policy, args.group)
    cells = matrix.cells_of(names, args.size, cpu=args.mmu and mmu.check_cpu(args.mmu))
    own = str(paths.of_size(args.size) / (f"{mmu.FOLDER}/{args.mmu}" if args.mmu else args.group))
    if args.machine == "local":
        if args.mmu:
            raise AbhError("the MMU model runs in the emulated machine only", next_step="leave --machine local out")
        return _local(names, args.size, dry=args.dry_run)
    paths.MEASURED.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(paths.MEASURED / ".study.lock", timeout=0):
            cache.sweep_scratch()
            if not args.dry_run:
                matrix.prepare(cells)
                matrix.drop_stale(paths.MEASURED / own, cells)
            progress.say(
                f"{len(names)} cells, {args.cores} at a time; those whose result still holds are not run again"
            )
            failed = _workflow(names, own, args)
            return failed if args.dry_run else _report() or failed
    except Timeout:
        raise AbhError(
            "another study is running in this checkout",
            where=paths.CHECKOUT,
            next_step="wait for it, or clone the project once more and run there",
        ) from None


def _local(names: list[str], size: str, *, dry: bool) -> int:
    """Every cell on this machine's own KVM: time is measured here, so one at a time. The report leaves them out."""
    from abh import cli
    from abh.bench import local
    from abh.commands import run as one_run

    if dry:
        print("\n".join(names))
        return 0
    local.check()
    worst = 0
    for name in names:
        worst = max(worst, one_run.run(cli.parse(["run", name, "--size", size, "--machine", "local"])))
    print(f"{len(names)} cells in {local.MEASURED}")
    return 1 if worst else 0


def _workflow(names: list[str], own: str, args: argparse.Namespace) -> int:
    words = [sys.executable, "-m", "snakemake", "--snakefile", str(paths.CHECKOUT / "workflow" / "Snakefile")]
    words += ["--directory", str(paths.CHECKOUT), "--cores", str(args.cores), "--keep-going", "--keep-incomplete"]
    # A result is written whole or not at all, and drop_stale() has judged those that are there: Snakemake makes the
    # missing ones. Our own lock stands above; Snakemake's would have to be broken by hand after a kill.
    words += ["--ignore-incomplete", "--rerun-triggers", "mtime", "--nolock", "--quiet", "all"]
    where = Path("analysis/measured") / own
    words += ["--config", f"size={args.size}", f"abh={_command()}", f"folder={where}"]
    words += [f"options=--mmu {args.mmu}"] if args.mmu else []  # Snakemake reads an empty one as None
    words += ["--dry-run"] if args.dry_run else []
    words += ["--", *(f"{where}/{name}.json" for name in names)]
    environment = {**os.environ, "PYTHONPATH": str(paths.CHECKOUT), "ABH_CHECKOUT": str(paths.CHECKOUT)}
    return _run(words, environment)


def _run(words: list[str], environment: dict[str, str]) -> int:
    """Runs the workflow engine; whatever ends this process, the engine and its cells end too."""
    process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *words], env=environment)
    try:
        return process.wait()
    except BaseException:
        _end_with_children(process.pid)
        raise


def _end_with_children(pid: int) -> None:
    """Ends the workflow engine and the cells it started: it would leave them running."""
    import psutil

    engine = psutil.Process(pid)
    everyone = [*engine.children(recursive=True), engine]
    for each in everyone:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.terminate()
    _, alive = psutil.wait_procs(everyone, timeout=10)
    for each in alive:
        each.kill()


def _command() -> str:
    own = paths.CHECKOUT / "bin" / "abh"
    return str(own) if own.exists() else "abh"


def _report() -> int:
    from abh.commands import report

    return report.run(argparse.Namespace(results=Path(paths.MEASURED), out=Path(paths.REPORT_OUT)))
