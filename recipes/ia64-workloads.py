# SPDX-License-Identifier: MIT
"""Builds the workloads that can be had on the Itanium machine: of C alone, and no package (abh/study/itanium.py)."""

import pathlib
import subprocess
import tomllib

OUT = pathlib.Path("/obj/root/abh/workloads")
ROOMS = ("/main/workloads", "/main/workloads/itanium")

for room in ROOMS:
    for spec in sorted(pathlib.Path(room).glob("*/workload.toml")):
        workload = tomllib.loads(spec.read_text())
        packages = workload.get("packages", []) + workload.get("build_packages", [])
        if packages or {command[0] for command in workload["build"]} != {"cc"}:
            continue
        out = OUT / spec.parent.name
        out.mkdir()
        print(f"building workload {out.name}", flush=True)
        for command in workload["build"]:
            words = [word.replace("{out}", str(out)) for word in command]
            subprocess.run(words, cwd=spec.parent, check=True)
