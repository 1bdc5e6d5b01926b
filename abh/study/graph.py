# SPDX-License-Identifier: MIT
"""A study as steps that need each other: roots, components, booted machines, cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from abh import progress, schedule
from abh.build import components, root
from abh.errors import AbhError
from abh.schedule import Step
from abh.schema import result, spec
from abh.schema.result import Result
from abh.study import cell, code, computers, draws, matrix

ROOT_MINUTES = 0.7
BOOT_MINUTES = 0.6
CELL_MINUTES = {"smoke": 0.2, "paper": 4.0}
EMULATOR_MIB = 600  # of QEMU itself, beside the machine's memory; seen 350


@dataclass
class Told:
    """What a study has come to, as its cells end."""

    planned: int
    heard: Callable[[Result, int, int], None]  # a result, which it is, of how many
    results: list[Result] = field(default_factory=list)
    held: int = 0

    def tell(self, made: Result) -> None:
        """A cell was run."""
        self.results.append(made)
        self.heard(made, len(self.results) + self.held, self.planned)

    @property
    def bad(self) -> list[Result]:
        """The results that are no success and no skip."""
        return [each for each in self.results if each.outcome not in ("success", "skip")]


def of_components(names: Iterable[str]) -> Iterator[Step]:
    """The steps that build these components, with all that they need."""
    wanted = list(names)
    seen: set[str] = set()
    roots: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        each = components.COMPONENTS[name]
        own_roots = {each.root, *each.roots}
        roots |= own_roots
        wanted += each.needs
        needs = frozenset({*each.needs, *map(_root_step, own_roots)})
        yield Step(name, partial(components.path_of, name), needs, each.minutes, memory_mib=2048)
    yield from map(of_root, sorted(roots))


def of_root(name: str) -> Step:
    """The step that makes a Debian root."""
    return Step(_root_step(name), partial(root.contents, name), minutes=ROOT_MINUTES)


def _root_step(name: str) -> str:
    return f"root {name}"


def of_cells(cells: Sequence[cell.Cell], folder: Path, told: Told) -> list[Step]:
    """The steps of a study: what its cells need, the cells (each in every draw that it has), and their medians.

    A cell whose result in `folder` still holds is not run again, which is known only once all that it is made of is.
    """
    for start in {computers.of(one).__name__ for one in cells}:
        code.digest(start)  # once, and now: the code that runs may be edited before the first cell ends
    steps: dict[str, Step] = {}
    first: dict[tuple[object, ...], cell.Cell] = {}
    for one in cells:
        same = first.setdefault(_told(one), one)
        if same is not one:
            # Two policies that come to the same in this environment: what a machine is told decides all that it does.
            alias = Step(one.name, partial(_copy, same, one, folder, told), frozenset({_last(same)}), 0.01, 0)
            steps[alias.name] = alias
            continue
        boot, *parts = of_boot(one)
        steps |= {step.name: step for step in (boot, *parts) if step.name not in steps}
        each_draw = [replace(one, draw=number) for number in draws.numbers(one.draws)]
        for drawn in each_draw:
            step = Step(
                drawn.name,
                partial(_run, drawn, folder, told),
                frozenset({boot.name}),
                CELL_MINUTES[one.size],
                _memory(one),
            )
            steps[step.name] = step
        if one.draws > 1:
            of_all = partial(_merge, one, each_draw, folder)
            steps[_last(one)] = Step(_last(one), of_all, frozenset(each.name for each in each_draw), 0.01, 0)
    return list(steps.values())


def _told(one: cell.Cell) -> tuple[object, ...]:
    """What a cell is, but for the name of its policy."""
    return (one.environment.name, one.workload.name, one.size, *computers.of(one).told(one), one.model, one.draws)


def _last(one: cell.Cell) -> str:
    """The step after which a cell's result is there."""
    return one.name if one.draws == 1 else f"{one.run} of {one.draws} draws"


def of_boot(one: cell.Cell) -> list[Step]:
    """The step that boots a cell's machine once, and then those that build all that it and the cell are made of."""
    names = one.components
    name = f"boot {spec.of_group(f'{one.environment.name} {one.size}', one.workload.group)}"
    boot = Step(name, partial(computers.of(one).frozen_state, one), frozenset(names), BOOT_MINUTES, _memory(one))
    return [boot, *of_components(names)]


def _memory(one: cell.Cell) -> int:
    return one.machine.memory_mib[one.size] + EMULATOR_MIB


def _run(one: cell.Cell, folder: Path, told: Told) -> None:
    place = draws.folder_of(folder, one)
    if matrix.holds(place, one):
        told.held += 1
        return
    with progress.still(f"running {one.name}"):
        made = perform(one, place)
    told.tell(made)


def perform(
    one: cell.Cell, folder: Path, run: Callable[[cell.Cell], Result] | None = None, *, repeats: bool = True
) -> Result:
    """Runs a cell and keeps its result; an error on the way to one is a result, too, as the report is to say it."""
    depends = matrix.fingerprint(one) if repeats else matrix.NO_REPEAT
    try:
        made = (run or computers.of(one).run)(one)
    except AbhError as error:
        made = cell.result_of(one, "error", str(error), {})
    if schedule.stopping.is_set():  # the machine was ended by us: that says nothing of the cell
        raise AbhError("ended before its cell did", where=one.name, next_step="run the same command again to go on")
    matrix.keep(folder, one, made, depends)
    return made


def _copy(same: cell.Cell, one: cell.Cell, folder: Path, told: Told) -> None:
    """Gives a cell the result of one that is told the same."""
    if matrix.holds(folder, one):
        told.held += one.draws
        return
    made = result.read(folder / f"{same.run}.json")
    own = {"run": str(one.run), "policy": one.policy.name, "provenance": cell.provenance(one)}
    copied = made.model_copy(update=own)
    matrix.keep(folder, one, copied, matrix.fingerprint(one))
    for _ in range(one.draws):
        told.tell(copied)


def _merge(one: cell.Cell, each_draw: Sequence[cell.Cell], folder: Path) -> None:
    made = [result.read(draws.folder_of(folder, each) / f"{one.run}.json") for each in each_draw]
    matrix.keep(folder, one, draws.median(made, cell.provenance(one)), matrix.fingerprint(one))
