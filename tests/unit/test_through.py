# SPDX-License-Identifier: MIT
"""A study on a machine that a command leads to: here a script, which says what the abh there would."""

import json
import shlex
import sys

import pytest

from abh import cli
from abh.collect import session
from abh.commands import study
from abh.errors import AbhError
from abh.schema import measured
from abh.schema.result import Value
from abh.study import cell, local, matrix, through
from tests.unit.test_repeats import PROVENANCE, WORDS

THERE = """
import json, pathlib, sys
here = pathlib.Path(__file__).parent
words = sys.argv[1:]
with (here / "asked").open("a") as asked:
    asked.write(json.dumps(words) + "\\n")
if words == ["abh", "--version"]:
    print((here / "version").read_text())
    sys.exit((here / "version").read_text() == "")
status, text = json.loads((here / "says").read_text())
count = len((here / "asked").read_text().splitlines())
filled = {"RUN": words[2], "POLICY": words[2].partition("~")[2], "[NUMBER]": str(count)}
for name, value in filled.items():
    text = text.replace(name, value)
print(text, end="")
print("a word of the other side", file=sys.stderr)
sys.exit(status)
"""


@pytest.fixture
def there(tmp_path, monkeypatch):
    """What the other side says: its exit status and its output, in which RUN, POLICY and [NUMBER] are filled in."""
    monkeypatch.setattr(local, "MEASURED", tmp_path / "local")
    monkeypatch.setattr(local, "check", lambda: pytest.fail("this machine's own KVM is not asked for"))
    monkeypatch.setattr(session, "FOLDER", tmp_path / "collect")
    monkeypatch.setattr(matrix, "fingerprint", lambda one: f"of {one.run}")
    monkeypatch.setattr(cell, "provenance", lambda one: PROVENANCE)
    (tmp_path / "there.py").write_text(THERE)
    (tmp_path / "version").write_text(f"abh {cli.version()}")
    made = cell.result_of(cell.Cell.of("sqlite@kvm-hap~thp", "smoke"), "success", None, {})
    values = {"elapsed": Value.of(3.5, "s", "measured")}
    document = made.model_copy(update={"values": values}).model_dump()
    document |= {"run": "RUN", "policy": "POLICY"}
    document["provenance"]["machine"] = "Some CPU (Vendor, family 0x6, model 0x01), 8 CPUs, Linux 6.12"

    def say(status=0, text=None, **other):
        told = json.dumps({"result": {**document, **other}}) if text is None else text
        (tmp_path / "says").write_text(json.dumps([status, told]))

    say()
    say.document, say.folder = document, tmp_path
    say.command = shlex.join([sys.executable, str(tmp_path / "there.py")])
    return say


def run(there, *words):
    words = [*WORDS, "--repeats", "2", *words]
    return study.run(cli.parse(["study", "--machine", "local", "--through", there.command, *words]))


def results(there):
    return {path.stem: measured.read(path) for path in (there.folder / "collect").glob("*/*.json")}


def asked(there):
    return [json.loads(line) for line in (there.folder / "asked").read_text().splitlines()]


def test_runs_are_made_there_and_kept_here(there):
    assert run(there) == 0
    found = results(there)
    assert set(found) == {f"sqlite@kvm-hap~{policy}" for policy in ("reg", "thp", "abh")}
    one = found["sqlite@kvm-hap~abh"]
    assert (one.processor, one.values["elapsed"].runs, one.policy) == ("Some CPU", 2, "abh")
    assert "8 CPUs, Linux 6.12" in one.provenance.machine
    first, *others = asked(there)
    assert first == ["abh", "--version"] and len(others) == 6
    assert ["abh", "run", "sqlite@kvm-hap~abh", "--size", "smoke", "--machine", "local", "--json"] in others
    assert run(there) == 0 and len(asked(there)) == 1 + 6 + 1  # what is there already is not run again


@pytest.mark.parametrize("version", ["abh 0.0.0", "", "bash: abh: command not found"])
def test_another_abh_there_or_none_is_said_before_anything_runs(there, version):
    (there.folder / "version").write_text(version)
    with pytest.raises(AbhError, match="does not lead to this version"):
        run(there)
    assert len(asked(there)) == 1


@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (255, "", "exit status 255"),
        (0, "", "Expecting value"),
        (0, "[]", "list indices"),
        (0, '{"result": {}}', "validation errors"),
        (0, "[" * 100_000, "recursion"),
        (1, None, "exit status 1"),
    ],
)
def test_what_is_no_result_is_an_error_with_the_words_of_the_other_side(there, status, text, said):
    there(status, text)
    with pytest.raises(AbhError, match="no result came back") as error:
        through.run(cell.Cell.of("sqlite@kvm-hap~abh", "smoke"), through.words_of(there.command))
    assert said in str(error.value) and "a word of the other side" in str(error.value)


def test_the_result_of_another_run_or_of_other_sources_is_not_taken(there):
    there(run="xalan@kvm-hap~abh", workload="xalan")
    one = cell.Cell.of("sqlite@kvm-hap~abh", "smoke")
    with pytest.raises(AbhError, match="a result of xalan"):
        through.run(one, through.words_of(there.command))
    there(provenance={**there.document["provenance"], "commit": "other"})
    with pytest.raises(AbhError, match="other sources"):
        through.run(one, through.words_of(there.command))


def test_nodes_that_are_not_alike_are_not_one_machine(there):
    there(provenance={**there.document["provenance"], "machine": "node [NUMBER]"})
    with pytest.raises(AbhError, match="not alike"):
        run(there)


def test_a_skip_there_is_a_skip_and_a_failure_a_failure(there):
    there(77, outcome="skip", reason="paged by shadow")
    assert run(there) == 0
    assert {each.outcome for each in results(there).values()} == {"skip"}
    there(5, outcome="crash", reason="the guest died")
    for path in (there.folder / "local").rglob("*.json"):
        path.unlink()
    assert run(there) == 1


def test_a_command_that_is_none_is_wrong_usage(there):
    for command in ("", "ssh 'host"):
        there.command = command
        with pytest.raises(AbhError, match="not a command") as error:
            run(there)
        assert error.value.status == 2
    there.command = "/no/such/program"
    with pytest.raises(AbhError, match="cannot be started"):
        run(there)
    with pytest.raises(AbhError, match="repeated"):
        study.run(cli.parse(["study", "--machine", "local", *WORDS, "--through", "ssh host"]))


def test_a_place_is_named_by_its_command():
    assert through.place_of(["ssh", "-p", "22", "Root@lab.example"]) == "ssh-p-22-root-lab-example"
    long = [through.place_of(["srun", *(["--nodelist"] * 40), name]) for name in ("one", "other")]
    assert all(len(name) < 80 for name in long) and long[0].endswith("-one") and long[0] != long[1]
