# SPDX-License-Identifier: MIT
"""Writes a seeded XML catalogue of subjects, authors, books and reviews that carries its own totals."""

import argparse
import random

SUBJECTS = ("algebra", "botany", "chess", "dance", "ethics", "film", "gardens", "history", "islands", "jazz")
WORDS = "the of page table entry large small fault walk shadow nested guest host frame address memory cache".split()


def words(source, count):
    return " ".join(source.choice(WORDS) for _ in range(count))


def head(source, count):
    for subject in SUBJECTS:
        yield f'<subject id="{subject}"/>\n'
    for number in range(count):
        yield f'<author id="a{number}"><name>{source.getrandbits(32):08x} {words(source, 1)}</name></author>\n'


def book(source, number, author_count):
    price = source.randrange(100, 10000)
    reviews = "".join(
        f'<review stars="{source.randrange(1, 6)}">{words(source, source.randrange(3, 12))}</review>'
        for _ in range(source.randrange(4))
    )
    text = (
        f'<book id="b{number}" subject="{source.choice(SUBJECTS)}" author="a{source.randrange(author_count)}">'
        f"<title>{words(source, source.randrange(2, 6))}</title><price>{price}</price>{reviews}</book>\n"
    )
    return text, price


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--books", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("output")
    arguments = parser.parse_args()
    if arguments.books < 1:
        parser.error(f"--books: got {arguments.books}, expected at least 1")
    source = random.Random(arguments.seed)
    author_count = arguments.books // 8 + 1
    total = 0
    with open(arguments.output, "w", encoding="ascii") as output:
        output.write('<?xml version="1.0" encoding="UTF-8"?>\n<catalogue>\n')
        output.writelines(head(source, author_count))
        for number in range(arguments.books):
            text, price = book(source, number, author_count)
            output.write(text)
            total += price
        output.write(f'<totals books="{arguments.books}" price="{total}"/>\n</catalogue>\n')


if __name__ == "__main__":
    main()
