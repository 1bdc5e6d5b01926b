# SPDX-License-Identifier: MIT
"""Writes text as people write it, as far as a compressor sees: words drawn by rank, and passages that come again."""

import argparse
import random

parser = argparse.ArgumentParser()
parser.add_argument("--kib", type=int, required=True)
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("out")
args = parser.parse_args()
draw = random.Random(args.seed)
letters = "etaoinshrdlucmfwypvbgk"
words = ["".join(draw.choice(letters) for _ in range(draw.randint(2, 9))) for _ in range(5000)]
weights = [1 / (rank + 1) for rank in range(len(words))]
passages: list[str] = []
with open(args.out, "w", encoding="ascii") as out:
    while out.tell() < args.kib << 10:
        if passages and draw.random() < 0.1:
            out.write(draw.choice(passages))
            continue
        passage = " ".join(draw.choices(words, weights, k=80)) + ".\n"
        passages = [*passages[-2000:], passage]
        out.write(passage)
