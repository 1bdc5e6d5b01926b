# SPDX-License-Identifier: MIT
"""What memory calls cost, in instructions (counted): without ABH's patches, with them and off, and for whom it is on.

With reservations too, in a process that has none and, last, in one that has some.

QEMU's -icount lets a machine's clock tell how many instructions it has executed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from abh.errors import AbhError
from abh.verify import testbed

ICOUNT = ("-icount", "shift=0,sleep=off")
RUN = "run /cost"
# No program has had ABH in the first two, so that its static branch is as at boot; in the third somebody else may.
STATES: Mapping[str, Sequence[str]] = {
    "off": (RUN,),
    "others": (f"set {testbed.KNOB} opt-in", RUN),
    "on": (f"set {testbed.KNOB} always", RUN),
    "reserve": (f"set {testbed.RESERVATION}/enabled 1", RUN),  # reservations, and nobody has ABH
}
# Of the newest kernel's series, which has one switch and asks no program.
NEWEST: Mapping[str, Sequence[str]] = {"off": (RUN,), "on": (f"set {testbed.BRK_AHEAD} 1", RUN)}
# Of what a call costs without ABH: most that it may cost beyond that. Who has ABH pays for it, which is not judged.
MOST: Mapping[str, float] = {"off": 0.015, "others": 0.02}
# A fork() took 168,174 instructions with the switch on and 171,042 with it off: by chance, so this one is wider.
MOST_NEWEST: Mapping[str, float] = {"off": 0.03}


def costs(linux: Path, job: Sequence[str], limit_s: float, tell: Callable[[str], None]) -> dict[str, int]:
    """Instructions of each call, in a machine of its own."""
    said = testbed.run(linux, job, limit_s=limit_s, tell=tell, more=ICOUNT)
    words = [line.split(maxsplit=2) for line in said.lines if line.startswith("cost ")]
    if not said.ok or not words:
        raise AbhError("what calls cost was not told", got=said.problem or "a failure", tail=said.tail())
    return {name: int(number) for _, number, name in words}


def compare(
    without: Path,
    patched: Path,
    limit_s: float,
    tell: Callable[[str], Callable[[str], None]],
    states: Mapping[str, Sequence[str]] = STATES,
    most: Mapping[str, float] = MOST,
) -> bool:
    """Prints a table, and what costs too much where nobody has ABH; whether nothing does.

    states: how the patched kernel is set -> the job that does so and counts, STATES or NEWEST.
    """
    told = {"without": costs(without, (RUN,), limit_s, tell("without ABH's patches"))}
    told |= {state: costs(patched, job, limit_s, tell(state)) for state, job in states.items()}
    print("instructions (counted) of a call".ljust(44) + "".join(state.rjust(9) for state in told))
    for name in told["without"]:
        print(name.ljust(44) + "".join(f"{of[name]:>9,}" for of in told.values()))
    faults = excess(told, most)
    for fault in faults:
        print(f"kernel-test: {fault}")
    return not faults


def excess(told: Mapping[str, Mapping[str, int]], most: Mapping[str, float] = MOST) -> list[str]:
    """What costs a program without ABH more than a kernel that has no ABH does, by more than the bound."""
    return [
        f"{name}: {of[name]:,} instructions, {100 * (of[name] / stock - 1):.1f}% more than without ABH; "
        f"{state}, at most {100 * most[state]:g}%"
        for state, of in told.items()
        if state in most
        for name, stock in told["without"].items()
        if of[name] > (1 + most[state]) * stock
    ]
