# SPDX-License-Identifier: MIT
"""Builds the workloads that the Itanium machine can have: of C, and what is built for it (abh/study/itanium.py)."""

import pathlib
import subprocess
import tomllib

OUT = pathlib.Path("/obj/root/abh/workloads")
BUILT = {"libsqlite3-0", "libsqlite3-dev"}  # as there
ROOMS = ("/main/workloads", "/main/workloads/itanium")

for room in ROOMS:
    for spec in sorted(pathlib.Path(room).glob("*/workload.toml")):
        workload = tomllib.loads(spec.read_text())
        packages = {*workload.get("packages", []), *workload.get("build_packages", [])}
        if packages - BUILT or {command[0] for command in workload["build"]} != {"cc"}:
            continue
        out = OUT / spec.parent.name
        out.mkdir()
        print(f"building workload {out.name}", flush=True)
        for command in workload["build"]:
            words = [word.replace("{out}", str(out)) for word in command]
            subprocess.run(words, cwd=spec.parent, check=True)
