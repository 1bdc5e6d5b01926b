# SPDX-License-Identifier: MIT
"""Writes a Java project: classes that use each other, generics, lambdas and records, and a main that adds them up."""

import argparse
import pathlib

CLASS = """package project;

import java.util.*;
import java.util.function.*;
import java.util.stream.*;

public final class Part{n} implements Comparable<Part{n}> {{
    public record Entry(String name, long value, List<Integer> parts) {{}}

    private final Map<String, Entry> entries = new TreeMap<>();

    public Part{n}(int size) {{
        IntFunction<Entry> make = i -> new Entry("entry" + i, (long) i * {factor}, List.of(i, i + 1, i + {n}));
        entries.putAll(IntStream.range(0, size).mapToObj(make).collect(Collectors.toMap(Entry::name, e -> e)));
    }}

    public long sum() {{
        long own = entries.values().stream().filter(e -> e.value() % 3 != 0).mapToLong(Entry::value).sum();
        return own + entries.values().stream().flatMap(e -> e.parts().stream()).mapToLong(i -> i).max().orElse(0){next};
    }}

    @Override
    public int compareTo(Part{n} other) {{
        return Comparator.comparing(Part{n}::sum).thenComparing(p -> p.entries.size()).compare(this, other);
    }}

    static <T extends Comparable<? super T>> Optional<T> largest(Collection<? extends T> of) {{
        T found = null;
        for (T each : of) {{
            found = found == null || each.compareTo(found) > 0 ? each : found;
        }}
        return Optional.ofNullable(found);
    }}
}}
"""
MAIN = """package project;

public final class Main {{
    public static void main(String[] words) {{
        System.out.println("answer: " + new Part0({size}).sum());
    }}
}}
"""
parser = argparse.ArgumentParser()
parser.add_argument("--classes", type=int, required=True)
parser.add_argument("out", type=pathlib.Path)
args = parser.parse_args()
args.out.mkdir()
for n in range(args.classes):
    following = f" + new Part{n + 1}(20).sum()" if n + 1 < args.classes else ""
    (args.out / f"Part{n}.java").write_text(CLASS.format(n=n, factor=2 * n + 7, next=following))
(args.out / "Main.java").write_text(MAIN.format(size=20))
