# SPDX-License-Identifier: MIT
"""The digest of the code that judges: what changes it, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from abh.study import code

START = '"""Judges."""\nfrom abh.model import mmu\nfrom abh.schema.result import Value\n\n' \
        'def run(x):\n    """Runs."""\n    return mmu.of(x) + 1\n'  # fmt: skip
MODULES = {
    "abh/study/cell.py": START,
    "abh/model/mmu.py": "import abh.machine.emulated\n\ndef of(x):\n    return 2 * x\n",
    "abh/machine/emulated.py": "ICOUNT = 'shift=1'\n\nclass Machine:\n    def boot(self):\n        pass\n",
    "abh/schema/result.py": "class Value:\n    unit = 'faults'\n",
    "abh/schema/unused.py": "X = 1\n",
    "abh/commands/study.py": "from abh.study import cell\n",
    "abh/report/page.py": "from abh.schema import result\n",
    "abh/build/cache.py": "Y = 1\n",
}


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for name, text in MODULES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def changes(sources: Path) -> Callable[[str, str, str], bool]:
    """Whether a module's change, some text put in another's place, changes the digest."""

    def after(name: str, old: str, new: str) -> bool:
        before = code.digest.__wrapped__(sources=sources)
        text = (sources / name).read_text()
        assert old in text
        (sources / name).write_text(text.replace(old, new, 1))
        return bool(code.digest.__wrapped__(sources=sources) != before)

    return after


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("abh/study/cell.py", "+ 1", "+ 2"),
        ("abh/study/cell.py", "def run(x)", "def run(x, y=0)"),
        ("abh/model/mmu.py", "2 * x", "3 * x"),
        ("abh/machine/emulated.py", "shift=1", "shift=2"),
        ("abh/machine/emulated.py", "        pass", "        return 1"),
        ("abh/schema/result.py", "'faults'", "'pages'"),
        ("abh/study/cell.py", "import mmu\n", "import mmu\nimport abh.schema.unused\n"),
    ],
)
def test_what_the_code_does_is_part_of_it(changes, name, old, new):
    assert changes(name, old, new)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("abh/study/cell.py", '"""Judges."""', '"""Judges well."""'),
        ("abh/study/cell.py", '    """Runs."""\n', ""),
        ("abh/study/cell.py", "return mmu.of(x) + 1", "# Twice.\n    return (mmu.of(x)\n            + 1)  # done"),
        ("abh/machine/emulated.py", "    def boot(self):\n        pass", '    def boot(self):\n        """Boots."""'),
        ("abh/schema/unused.py", "1", "2"),
        ("abh/commands/study.py", "cell", "draws"),
        ("abh/report/page.py", "result", "spec"),
        ("abh/build/cache.py", "1", "2"),
    ],
)
def test_prose_layout_and_what_it_does_not_import_are_not(changes, name, old, new):
    assert not changes(name, old, new)


def test_of_this_checkout_it_is_what_tells_the_machine_and_judges_its_answers():
    names = set(code.modules())
    assert {
        "abh.study.cell", "abh.study.faults", "abh.machine.emulated", "abh.model.mmu",
        "abh.schema.result", "abh.schema.spec", "abh.schema.workload", "abh.schema.strict",
    } <= names  # fmt: skip
    outside = ("abh.commands", "abh.report", "abh.build", "abh.verify", "abh.compare", "abh.host")
    assert not [name for name in names if name.startswith(outside)]
    assert all(path.is_file() for path in code.modules().values())
