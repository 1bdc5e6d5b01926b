# SPDX-License-Identifier: MIT
"""Every result file of a folder, checked; a study needs at least one."""

from __future__ import annotations

from pathlib import Path

from abh.errors import AbhError
from abh.paths import LOCAL
from abh.schema.result import Result, read
from abh.schema.spec import Run


def load(folder: Path) -> dict[Run, Result]:
    """Run to result. A malformed file is an error, not a gap: a gap would look like a cell that was never run.

    There may be none where folders within have some: those of a processor's model, or of a group of policies; those of
    this machine's own hypervisor are no part of a report.
    """
    paths = sorted(folder.glob("[!.]*.json"))
    apart = folder / LOCAL.name
    if not paths and all(path.is_relative_to(apart) for path in folder.glob("*/**/[!.]*.json")):
        raise AbhError(
            "there are no results to report",
            where=folder,
            got="no .json file" if folder.is_dir() else "no such folder",
            expected="one <workload>@<environment>~<policy>.json for each run",
            next_step="`make study` runs the study; `abh run` runs one cell of it",
        )
    return dict(_one(path) for path in paths)


def _one(path: Path) -> tuple[Run, Result]:
    result = read(path)
    if path.stem != result.run:
        raise AbhError(
            "the file's name is not that of its run",
            where=f"{path}, key run",
            got=result.run,
            expected=path.stem,
            next_step="rename the file, or delete it and run the cell again",
        )
    return Run(result.workload, result.environment, result.policy), result
