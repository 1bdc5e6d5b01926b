# SPDX-License-Identifier: MIT
"""Writes a history for git fast-import: files that change a little with each commit."""

import argparse
import random

parser = argparse.ArgumentParser()
parser.add_argument("--commits", type=int, required=True)
parser.add_argument("--files", type=int, required=True)
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("out")
args = parser.parse_args()
draw = random.Random(args.seed)
files = [[f"line {draw.randrange(10**6)} of file {n}" for _ in range(200)] for n in range(args.files)]
with open(args.out, "w", encoding="ascii") as out:
    for commit in range(args.commits):
        changed = range(args.files) if commit == 0 else draw.sample(range(args.files), 6)
        out.write(f"commit refs/heads/main\ncommitter A <a@b> {1700000000 + commit} +0000\ndata 6\nchange\n")
        for n in changed:
            for _ in range(5):
                files[n][draw.randrange(200)] = f"line {draw.randrange(10**6)} of file {n}, since commit {commit}"
            text = "\n".join(files[n]) + "\n"
            out.write(f"M 644 inline folder{n % 7}/file{n}\ndata {len(text)}\n{text}\n")
