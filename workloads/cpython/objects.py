# SPDX-License-Identifier: MIT
"""Keeps objects in a dictionary under string keys, replaces some, and checks every sum it can know beforehand."""

import argparse
import sys

MASK = (1 << 64) - 1
REPLACED = 3  # Arbitrary: every third object is deleted and made anew, so that freed blocks are used again.


class Item:
    """A plain object with an integer, a string and a list, each an allocation."""

    def __init__(self, number, seed):
        self.value = mix(number + seed)
        self.name = f"item-{self.value:016x}"
        self.links = [self.value & 0xFFFF, number]


def mix(number):
    """Scatters a number over 64 bits (one round of SplitMix64's finaliser, which is one to one)."""
    number = number * 0x9E3779B97F4A7C15 & MASK
    return (number ^ number >> 31) * 0xBF58476D1CE4E5B9 & MASK


def expect(what, got, expected):
    if got != expected:
        sys.exit(f"{what}: got {got}, expected {expected}")


def fill(table, numbers, seed):
    for number in numbers:
        item = Item(number, seed)
        table[item.name] = item


def check(table, count, seed):
    """Looks every item up by a key made afresh; returns a checksum that depends on insertion order."""
    expect("entries", len(table), count)
    for number in range(count):
        item = table[f"item-{mix(number + seed):016x}"]
        expect("number of an item", item.links[1], number)
    expect("sum of numbers", sum(item.links[1] for item in table.values()), count * (count - 1) // 2)
    checksum = 0
    for name, item in table.items():
        checksum = (checksum * 5 + item.value + len(name)) & MASK
    return checksum


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    arguments = parser.parse_args()
    if arguments.objects < 1 or arguments.seed < 0:
        parser.error(f"got {arguments.objects} objects, seed {arguments.seed}; expected at least 1, and at least 0")
    return arguments


def main():
    arguments = parse_arguments()
    count, seed = arguments.objects, arguments.seed << 32
    table = {}
    fill(table, range(count), seed)
    first = check(table, count, seed)
    for number in range(0, count, REPLACED):
        del table[f"item-{mix(number + seed):016x}"]
    fill(table, range(0, count, REPLACED), seed)
    second = check(table, count, seed)
    print(f"objects: {count}")
    print(f"characters: {sum(map(len, table))}")
    print(f"answer: {(first ^ second * 3) & MASK:016x}")


if __name__ == "__main__":
    main()
