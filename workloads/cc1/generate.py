# SPDX-License-Identifier: MIT
"""Writes a preprocessed C translation unit of seeded functions, of the shapes that compilers work on."""

import argparse
import random

HEADER = """\
typedef unsigned int u32;
typedef unsigned long u64;

struct node {
	struct node *left, *right;
	u64 key;
	u32 weight, colour;
};

struct table {
	u64 used, size;
	u64 slot[256];
	struct node *root;
};

"""
OPERATORS = ("+", "-", "*", "^", "&", "|")


class Unit:
    """Builds function texts; a function calls only earlier ones, so the unit needs no declarations."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.made = 0

    def operand(self):
        return self.random.choice(("a", "b", "x", "y", "t->used", "n->key", f"{self.random.randrange(1, 9999)}ul"))

    def expression(self, depth):
        """A random expression; never a division, which might trap or be undefined."""
        if depth == 0:
            return self.operand()
        if self.random.random() < 0.15:
            return f"(({self.expression(depth - 1)}) >> {self.random.randrange(1, 63)})"
        operator = self.random.choice(OPERATORS)
        return f"({self.expression(depth - 1)} {operator} {self.expression(depth - 1)})"

    def call(self):
        if self.made == 0:
            return self.expression(1)
        return f"step{self.random.randrange(self.made)}(t, n, {self.operand()}, {self.operand()})"

    def hash_loop(self):
        return (
            f"\tfor (u64 i = 0; i < t->size; i++) {{\n\t\tx = {self.expression(1)} + t->slot[(x + i) & 255];\n"
            f"\t\tt->slot[i & 255] ^= {self.expression(1)};\n\t\tif (x == {self.operand()})\n\t\t\tbreak;\n\t}}\n"
        )

    def tree_walk(self):
        return (
            f"\twhile (n && n->key != {self.operand()}) {{\n\t\ty += n->weight * {self.operand()};\n"
            f"\t\tn->colour = (u32)({self.expression(1)});\n\t\tn = n->key < x ? n->left : n->right;\n\t}}\n"
            "\tif (!n)\n\t\treturn x ^ y;\n"
        )

    def switch(self):
        cases = "".join(
            f"\tcase {value}:\n\t\ty = {self.expression(1)};\n\t\tbreak;\n"
            for value in sorted(self.random.sample(range(64), 4))
        )
        return f"\tswitch (x & 63) {{\n{cases}\tdefault:\n\t\tx += {self.call()};\n\t}}\n"

    def straight_line(self):
        return f"\tx = {self.expression(2)};\n\ty = {self.expression(2)};\n\tt->used += {self.call()};\n"

    def function(self):
        shapes = (self.hash_loop, self.tree_walk, self.switch, self.straight_line)
        body = "".join(shape() for shape in self.random.sample(shapes, self.random.choice((1, 1, 2))))
        text = (
            f"u64 step{self.made}(struct table *t, struct node *n, u64 a, u64 b)\n{{\n"
            f"\tu64 x = a + b, y = a ^ b;\n\n{body}\treturn {self.expression(1)};\n}}\n\n"
        )
        self.made += 1
        return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--functions", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("output")
    arguments = parser.parse_args()
    if arguments.functions < 1:
        parser.error(f"--functions: got {arguments.functions}, expected at least 1")
    unit = Unit(arguments.seed)
    with open(arguments.output, "w", encoding="ascii") as output:
        output.write(HEADER)
        output.writelines(unit.function() for _ in range(arguments.functions))


if __name__ == "__main__":
    main()
