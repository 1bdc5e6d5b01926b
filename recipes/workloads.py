# SPDX-License-Identifier: MIT
"""Builds every workload in a folder of its own and checks the inputs it made (recipes/workloads.sh)."""

import hashlib
import os
import pathlib
import subprocess
import sys
import tomllib


def build(spec: pathlib.Path, out: pathlib.Path) -> None:
    """Runs one workload's build commands; its inputs must have the sums that its workload.toml states."""
    workload = tomllib.loads(spec.read_text())
    out.mkdir(parents=True)
    for command in workload["build"]:
        words = [word.replace("{out}", str(out)) for word in command]
        subprocess.run(words, cwd=spec.parent, check=True)
    for size, made in workload.get("input", {}).items():
        got = hashlib.sha256((out / made["file"]).read_bytes()).hexdigest()
        if got != made["sha256"]:
            sys.exit(f"{spec}: input.{size}: {made['file']} has SHA-256 {got}, expected {made['sha256']}")


for folder in os.environ["READS"].split():
    for each in sorted(pathlib.Path("/main", folder).glob("*/workload.toml")):
        print(f"building workload {each.parent.name}", flush=True)
        build(each, pathlib.Path("/out") / each.parent.name)
