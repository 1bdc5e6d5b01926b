# SPDX-License-Identifier: MIT
"""vm-configs/costs/<cpu>.toml: what events cost on a processor that a machine only counts them of."""

from __future__ import annotations

from pydantic import model_validator

from abh.paths import CHECKOUT
from abh.schema.keys import Positive, Sentence, Spec
from abh.schema.shelf import Shelf
from abh.schema.strict import Strict, bad


class Cost(Strict):
    """Cycles of one event: between these two, as far as is known."""

    low: Positive
    high: Positive
    source: Sentence

    @model_validator(mode="after")
    def _rises(self) -> Cost:
        if self.low > self.high:
            raise bad("the least is above the most", key="low", got=self.low, expected=f"at most {self.high}")
        return self


class Costs(Spec):
    """The costs of a processor."""

    walker_hit: Cost  # a miss of the TLB that the walker serves
    software: Cost  # one that a handler serves, whatever the walker did before
    page_fault: Cost  # one that gets a page, its miss not included


COSTS = Shelf("table of costs", Costs, "vm-configs/costs/*.toml")


def of(cpu: str) -> Costs:
    """Those of a processor."""
    return COSTS.one(cpu, CHECKOUT)
