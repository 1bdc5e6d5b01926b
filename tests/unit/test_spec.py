# SPDX-License-Identifier: MIT
"""The TOML files: good ones load as written; every bad one is an error with the file, the key and a next step."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from described import FILES, POLICY, error_of, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abh.errors import AbhError
from abh.schema import spec, strict

LOADERS: dict[str, Callable[[Path], object]] = {
    "workloads/rows/workload.toml": spec.workloads,
    "vm-configs/kvm-hap.toml": spec.environments,
    "vm-configs/machines/kvm.toml": spec.machines,
    "vm-configs/policies/reg.toml": spec.policies,
    "vm-configs/roots/guest.toml": spec.roots,
}
WL, ENV, MACH, POL, RT = LOADERS


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    write(tmp_path)
    return tmp_path


def change(tree: Path, name: str, old: str, new: str) -> Path:
    text = (tree / name).read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {name}"
    (tree / name).write_text(text.replace(old, new), encoding="utf-8")
    return tree / name


# --- good files -------------------------------------------------------------------------------------------------


def test_every_kind_loads(tree: Path) -> None:
    assert [list(load(tree)) for load in LOADERS.values()] == [["rows"], ["kvm-hap"], ["kvm"], ["reg"], ["guest"]]  # type: ignore[call-overload]


def test_the_checkout_loads() -> None:
    assert {"reg", "thp", "thp-paper"} <= set(spec.policies())
    assert {"build", "host"} <= set(spec.roots())
    spec.environments()
    spec.machines()
    spec.workloads()


def test_a_workload_may_print_no_number(tree: Path) -> None:
    change(tree, WL, r"""metric.rows = { pattern = 'rows: (\S+)', unit = "count", better = "higher" }""", "")
    change(tree, WL, """metric.time = { pattern = '^time: (.*)$', unit = "s", better = "lower" }""", "")
    assert spec.workload("rows", tree).check_output("smoke", "answer: 1f\n") == (True, {})


def roots_of(tree: Path, *, packages: str = "", build_packages: str = "") -> dict[str, tuple[str, ...]]:
    change(tree, WL, "seed        = 7", f"seed = 7\npackages = [{packages}]\nbuild_packages = [{build_packages}]")
    more = 'purpose = "A."\nsuite = "trixie"\n'
    (tree / "vm-configs/roots/guest.toml").write_text(f'{more}packages = ["grep"]\nworkloads = "packages"\n')
    (tree / "vm-configs/roots/build.toml").write_text(f'{more}packages = ["gcc"]\n')
    (tree / "vm-configs/roots/workloads.toml").write_text(f'{more}extends = "build"\nworkloads = "build_packages"\n')
    return {name: each.packages for name, each in spec.roots(tree).items()}


def test_roots_have_what_the_workloads_ask_for(tree: Path) -> None:
    made = roots_of(tree, packages='"redis-server", "grep"', build_packages='"libz-dev"')
    assert made == {"build": ("gcc",), "guest": ("grep", "redis-server"), "workloads": ("gcc", "libz-dev")}


def test_a_root_that_extends_none_is_refused(tree: Path) -> None:
    roots_of(tree)
    path = change(tree, "vm-configs/roots/workloads.toml", '"build"', '"biuld"')
    assert f"{path}: extends" in str(error_of(lambda: spec.roots(tree)))
    change(tree, "vm-configs/roots/workloads.toml", '"biuld"', '"workloads"')
    assert f"{path}: extends" in str(error_of(lambda: spec.roots(tree)))


def test_a_workload_gives_its_commands(tree: Path) -> None:
    rows = spec.workload("rows", tree)
    assert rows.argv_for("smoke") == ["./rows", "--rows=20000", "--seed", "7", "smoke.txt", "{literal}"]
    assert rows.argv_for("paper")[1] == "--rows=1500000"
    assert rows.build_for("/abh/workloads/rows")[0] == ["cc", "-o", "/abh/workloads/rows/rows", "rows.c"]
    assert rows.build_for("/x")[1] == ["sh", "-c", "for i in 1; do echo ${i} | awk '{print}'; done"]
    assert (rows.answer_for("smoke"), rows.answer_for("paper")) == ("1f", "2e")
    assert rows.input.keys() == {"smoke"}
    assert rows.folder == tree / "workloads" / "rows"
    assert "did you mean `smoke`" in str(error_of(lambda: rows.argv_for("smok")))


def test_right_output(tree: Path) -> None:
    right, metrics = spec.workload("rows", tree).check_output("smoke", "rows: 5\r\ntime: 1.5\r\nanswer: 1f\r\n")
    assert right
    assert (metrics["rows"].value, metrics["rows"].kind) == (5, "counted")
    assert (metrics["time"].value, metrics["time"].kind) == (1.5, "emulated")


@pytest.mark.parametrize(
    "text", ["", "answer: 1e", "answer: 1f0", "answer: 2e", "answer: 1f\nanswer: 2e", "answer: 2e\nanswer: 1f"]
)
def test_wrong_answer(tree: Path, text: str) -> None:
    assert spec.workload("rows", tree).check_output("smoke", text)[0] is False


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no match"),
        ("rows: x", "not a finite number"),
        ("rows: nan", "not a finite number"),
        ("rows: 1e999", "not a finite number"),
        ("rows: 1_000", "not a finite number"),
        ("rows: ٣", "not a finite number"),
        ("rows: 1\nrows: 2", "2 different values"),
    ],
)
def test_a_metric_not_found_is_unknown_with_a_reason(tree: Path, text: str, reason: str) -> None:
    value = spec.workload("rows", tree).check_output("smoke", text)[1]["rows"]
    assert value.value is None
    assert reason in str(value.reason)


@given(number=st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_any_number_printed_is_read_back(number: float) -> None:
    metric = spec.Workload.model_fields["metric"].annotation.__args__[1](  # type: ignore[union-attr]
        pattern=r"n: (\S+)", unit="count", better="lower"
    )
    assert metric.find(f"n: {number}\n").value == number


def test_a_workload_without_answer(tree: Path) -> None:
    path = change(tree, WL, "answer      = 'answer: ([0-9a-f]+)'\n", "")
    path.write_text(re.sub(r', answer = "\w+"', "", path.read_text(encoding="utf-8")), encoding="utf-8")
    assert spec.workload("rows", tree).check_output("smoke", "")[0] is True
    assert spec.workload("rows", tree).answer_for("smoke") is None


def test_order_then_name(tree: Path) -> None:
    for name, order in (("b", 10), ("a", 10), ("z", 1)):
        (tree / f"vm-configs/policies/{name}.toml").write_text(f'purpose = "x"\norder = {order}\n', encoding="utf-8")
    assert list(spec.policies(tree)) == ["z", "a", "b", "reg"]


def test_a_loaded_object_does_not_change(tree: Path) -> None:
    with pytest.raises(ValueError, match="frozen"):
        spec.workload("rows", tree).seed = 8


# --- bad keys and values ----------------------------------------------------------------------------------------

BAD = [
    # file, text, its replacement, and what the message must contain
    (WL, "timeout_s   = 600", "timeout = 600", ["unknown key `timeout`", "did you mean `timeout_s`"]),
    (WL, "timeout_s   = 600", "", ["missing key `timeout_s`"]),
    (WL, "timeout_s   = 600", "timeout_s = 0", ["key timeout_s", "above 0"]),
    (WL, "timeout_s   = 600", "timeout_s = -5", ["key timeout_s", "got: -5"]),
    (WL, "timeout_s   = 600", "timeout_s = true", ["key timeout_s", "a whole number"]),
    (WL, "timeout_s   = 600", "timeout_s = 1.5", ["key timeout_s", "a whole number"]),
    (WL, "timeout_s   = 600", 'timeout_s = "600"', ["key timeout_s", 'got: "600" (str)', "a whole number"]),
    (WL, "timeout_s   = 600", "timeout_s = inf", ["key timeout_s"]),
    (WL, "timeout_s   = 600", "timeout_s = 2020-01-01", ["key timeout_s", "date"]),
    (WL, '"Rows in memory."', '"  "', ["key purpose", "non-empty"]),
    (WL, '"Rows in memory."', '"two\\nlines"', ["key purpose", "one non-empty line"]),
    (WL, "seed        = 7", "seed = -1", ["key seed", "0 or more"]),
    (WL, "seed        = 7", 'seed = 7\nname = "rows"', ["unknown key `name`"]),
    (WL, "seed        = 7", 'seed = 7\npath = "rows"', ["unknown key `path`"]),
    (WL, 'unit = "count", ', "", ["missing key `metric.rows.unit`"]),
    (WL, 'unit = "count"', 'unit = ""', ["key metric.rows.unit"]),
    (WL, 'unit = "count"', 'units = "count"', ["unknown key `metric.rows.units`", "did you mean `unit`"]),
    (WL, 'better = "higher"', 'better = "highr"', ["key metric.rows.better", "did you mean `higher`"]),
    (WL, "metric.rows", "metric.Rows", ["metric.Rows", "snake_case"]),
    (WL, "metric.rows", "metric.alloc_ratio", ["metric.alloc_ratio", "duplicate name"]),
    (WL, r"'rows: (\S+)'", r"'rows: \S+'", ["key metric.rows.pattern", "0 groups", "exactly one group"]),
    (WL, r"'rows: (\S+)'", r"'(rows): (\S+)'", ["key metric.rows.pattern", "2 groups"]),
    (WL, r"'rows: (\S+)'", r"'rows: (\S+'", ["key metric.rows.pattern", "bad regular expression"]),
    (WL, "'answer: ([0-9a-f]+)'", "'answer: [0-9a-f]+'", ["key answer", "0 groups"]),
    (WL, "answer      = 'answer: ([0-9a-f]+)'\n", "", ["key size.smoke.answer", "no `answer` pattern"]),
    (WL, ', answer = "2e"', "", ["key size.paper.answer", "no answer expected"]),
    (WL, 'answer = "2e"', "answer = 2", ["key size.paper.answer", "a string"]),
    (WL, "rows = 1500000, ", "", ["key argv", "{rows}", "size.paper"]),
    (WL, "rows = 1500000", "row = 1500000", ["key argv", "{rows}", "did you mean `row`"]),
    (WL, "rows = 1500000", "rows = 1, spare = 2", ["key size.paper.spare", "no word of argv uses"]),
    (WL, "rows = 1500000", "rows = 1, seed = 2", ["key size.paper.seed", "bench's own"]),
    (WL, "rows = 1500000", "rows = nan", ["key size.paper.rows"]),
    (WL, "rows = 1500000", "rows = true", ["key size.paper.rows", "a number or a one-line string"]),
    (WL, "rows = 1500000", "rows = [1]", ["key size.paper.rows", "got: [1]"]),
    (WL, "rows = 1500000", 'rows = "1\\narg rm"', ["key size.paper.rows"]),
    (WL, "size.paper  =", "size.papr =", ["key size.papr", "did you mean `paper`"]),
    (WL, 'size.paper  = { rows = 1500000, answer = "2e" }', "", ["key size.paper", "missing size"]),
    (WL, "input.smoke", "input.smoky", ["key input.smoky", "not declared", "did you mean `smoke`"]),
    (WL, '"smoke.txt"', '"../smoke.txt"', ["key input.smoke.file", "relative path"]),
    (WL, '"smoke.txt"', '"/smoke.txt"', ["key input.smoke.file", "relative path"]),
    (WL, "0" * 64, "0" * 63, ["key input.smoke.sha256", "64"]),
    (WL, '"{{literal}}"', '"{}"', ["key argv", "ill-formed placeholder"]),
    (WL, '"{{literal}}"', '"{0}"', ["key argv", "ill-formed placeholder"]),
    (WL, '"{{literal}}"', '"{seed.real}"', ["key argv", "ill-formed placeholder"]),
    (WL, '"{{literal}}"', '"{seed!r}"', ["key argv", "ill-formed placeholder"]),
    (WL, '"{{literal}}"', '"{seed:9}"', ["key argv", "ill-formed placeholder"]),
    (WL, '"{{literal}}"', '"{"', ["key argv", "unbalanced brace"]),
    (WL, '"{{literal}}"', '""', ["key argv.5"]),
    (WL, '"{{literal}}"', '"a\\nb"', ["key argv.5"]),
    (WL, '"{{literal}}"', "5", ["key argv.5", "a string"]),
    (WL, '"{out}/rows"', '"{seed}/rows"', ["key build.0", "does not exist in build"]),
    (WL, '["cc", "-o", "{out}/rows", "rows.c"]', "[]", ["key build.0", "at least one word"]),
    (WL, '["cc", "-o", "{out}/rows", "rows.c"]', '"cc rows.c"', ["key build.0", "an array"]),
    (WL, 'PYTHONHASHSEED = "0"', "PYTHONHASHSEED = 0", ["key env.PYTHONHASHSEED", "a string"]),
    (WL, "PYTHONHASHSEED", '"A B"', ["env.A B", "environment variable"]),
    (ENV, 'hypervisor = "kvm"', 'hypervisor = "kvn"', ["key hypervisor", "did you mean `kvm`"]),
    (ENV, 'hypervisor = "kvm"', 'hypervisor = "none"', ["key domain", "a domain without a hypervisor"]),
    (ENV, 'domain     = "kvm.xml"', "", ["key domain", "no domain for kvm"]),
    (ENV, '"kvm.xml"', '"kmv.xml"', ["key domain", "did you mean `kvm.xml`"]),
    (ENV, '"kvm.xml"', '"../kvm.xml"', ["key domain"]),
    (ENV, 'machine    = "kvm"', 'machine = "kvn"', ["key machine", "unknown machine", "did you mean `kvm`"]),
    (ENV, 'paging     = "hap"', 'paging = "pv"', ["key paging", "one of hap, shadow"]),
    (ENV, 'paging     = "hap"', 'paging = "native"', ["key paging", "one of hap, shadow"]),
    (ENV, "vcpus      = 1", "vcpus = 0", ["key vcpus"]),
    (ENV, ", paper = 1024 }", " }", ["missing size", "key memory_mib.paper"]),
    (ENV, "smoke = 256", "smoke = 0", ["key memory_mib.smoke", "above 0"]),
    (ENV, "smoke = 256", "smoke = 2048", ["key memory_mib.smoke", "more memory than its machine"]),
    (ENV, "{ npt = 1 }", "{ npt = true }", ["key host.modules.kvm_amd.npt"]),
    (ENV, "{ npt = 1 }", '{ npt = "1 nested=0" }', ["key host.modules.kvm_amd.npt", "without spaces"]),
    (ENV, "host.modules", "host.module", ["unknown key `host.module`", "did you mean `modules`"]),
    (ENV, '"kvm-debugfs"', '"xen-leaves"', ["key host_huge.source", "hypervisor kvm has no such source"]),
    (ENV, '"kvm-debugfs"', '"none"', ["key host_huge.why", "no reason"]),
    (ENV, '"kvm-debugfs"', '"kvm-debugfs", why = "x"', ["key host_huge.why"]),
    (ENV, '{ source = "kvm-debugfs" }', '{ sorce = "none" }', ["host_huge.sorce", "did you mean `source`"]),
    (ENV, "order      = 20", "order = 1.0", ["key order", "a whole number"]),
    (MACH, 'boot       = "linux"', 'boot = "xen"', ["key xen_cmdline", "without its command line"]),
    (MACH, 'boot       = "linux"', 'boot = "linux"\nxen_cmdline = "x"', ["key xen_cmdline"]),
    (MACH, 'boot       = "linux"', 'boot = "grub"', ["key boot", "one of linux, xen"]),
    (MACH, "boot_timeout_s = 120", "boot_timeout_s = 0", ["key boot_timeout_s"]),
    (MACH, '"-machine", "q35"', '"-m", "1G"', ["key qemu_args", "set `memory_mib` instead"]),
    (MACH, '"-machine", "q35"', '"-machine", 35', ["key qemu_args.1", "a string"]),
    (MACH, '"nokaslr"', '"a\\nb"', ["key kernel_cmdline", "one line"]),
    (POL, '= "never"', "= 0", ["a string"]),
    (POL, '{ "/sys', '{ "sys', ["a path below"]),
    (POL, '{ "/sys', '{ "/../sys', ["a path below"]),
    (POL, '{ "/sys', '{ "/sys /', ["a path below"]),
    (POL, '= "never"', '= "never\\nset /x"', ["one non-empty line"]),
    (POL, "guest.sysfs", "guest.sysfss", ["unknown key `guest.sysfss`", "did you mean `sysfs`"]),
    (POL, "guest.env", "host.env", ["unknown key `host.env`"]),
    (POL, '["/sys/kernel/mm/transparent_hugepage/enabled"]', '["/a", "/a"]', ["key requires", "duplicate name"]),
    (WL, "seed        = 7", 'seed = 7\npackages = ["a-b", "a-b"]', ["key packages", "duplicate name"]),
    (WL, "seed        = 7", 'seed = 7\npackages = ["Redis"]', ["key packages.0", "Debian package"]),
    (WL, "seed        = 7", 'seed = 7\nbuild_packages = ["--x"]', ["key build_packages.0", "Debian package"]),
    (RT, "packages", 'workloads = "argv"\npackages', ["key workloads"]),
    (RT, '["kmod", "g++"]', '["kmod", "kmod"]', ["key packages", "duplicate name"]),
    (RT, '["kmod", "g++"]', '["KMod"]', ["key packages.0", "Debian package"]),
    (RT, '["kmod", "g++"]', '["--option"]', ["key packages.0", "Debian package"]),
    (RT, '"trixie"', '"Trixie!"', ["key suite"]),
]


@pytest.mark.parametrize(("name", "old", "new", "expected"), BAD, ids=[f"{n[:14]}{i}" for i, (n, *_) in enumerate(BAD)])
def test_bad_file(tree: Path, name: str, old: str, new: str, expected: list[str]) -> None:
    path = change(tree, name, old, new)
    message = str(error_of(lambda: LOADERS[name](tree)))
    for text in [str(path), *expected]:
        assert text in message


def test_xen_needs_a_xen_machine(tree: Path) -> None:
    change(tree, ENV, 'hypervisor = "kvm"', 'hypervisor = "xen"')
    change(tree, ENV, '"kvm-debugfs"', '"xen-leaves"')
    assert "boot = xen, root = host" in str(error_of(lambda: spec.environments(tree)))


def test_xen_boots_the_hosts_image(tree: Path) -> None:
    change(tree, MACH, 'boot       = "linux"', 'boot = "xen"\nxen_cmdline = ""')
    assert list(spec.machines(tree)) == ["kvm"]
    path = change(tree, MACH, 'root       = "host"', 'root = "guest"')
    assert f"{path}, key root" in str(error_of(lambda: spec.machines(tree)))


def test_a_native_system_has_no_host_modules(tree: Path) -> None:
    change(tree, ENV, 'hypervisor = "kvm"', 'hypervisor = "none"')
    change(tree, ENV, 'domain     = "kvm.xml"', "")
    change(tree, ENV, '"hap"', '"native"')
    change(tree, ENV, '"kvm-debugfs"', '"none", why = "no host"')
    change(tree, MACH, 'root       = "host"', 'root = "guest"')
    path = tree / ENV
    assert f"{path}, key host.modules" in str(error_of(lambda: spec.environments(tree)))
    change(tree, ENV, "host.modules = { kvm_amd = { npt = 1 } }", "")
    assert spec.environment("kvm-hap", tree).paging == "native"


def test_all_problems_of_a_file_are_named(tree: Path) -> None:
    change(tree, WL, "timeout_s   = 600", "timeout = 600")
    change(tree, WL, "seed        = 7", 'seed = "7"')
    error = error_of(lambda: spec.workloads(tree))
    assert error.what == "unknown key `timeout`"
    assert "missing key `timeout_s`" in str(error.next_step)
    assert "`seed`: wrong type" in str(error.next_step)


# --- bad syntax -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ('purpose = "x"\norder = \n', 2, "syntax"),
        ('purpose = "x\norder = 1\n', 1, "syntax"),
        ("a = 1\nb = 2\na = 3\n", 3, "duplicate key"),
        ("[a]\n[b]\n[a]\n", 3, "duplicate key"),
        ("a = {b = 1, b = 2}\n", 1, "duplicate key"),
        ('purpose = """\n', 2, "syntax"),
        ("a = [1,\n", 2, "syntax"),
    ],
)
def test_a_syntax_error_has_its_line(tree: Path, text: str, line: int, what: str) -> None:
    (tree / POL).write_text(text, encoding="utf-8")
    error = error_of(lambda: spec.policies(tree))
    assert error.where == f"{tree / POL}:{line}"
    assert error.got == (text.split("\n")[line - 1].strip() or "(empty line)")
    assert what in error.what


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"a = " + b"[" * 50_000, b"order = " + b"9" * 5000, b"\0", b"", b"\xef\xbb\xbfa=1"]
)
def test_hostile_bytes_are_an_error_with_the_file(tree: Path, content: bytes) -> None:
    (tree / POL).write_bytes(content)
    assert str(tree / POL) in str(error_of(lambda: spec.policies(tree)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(data=st.data())
def test_a_damaged_file_loads_or_is_an_abh_error(tree: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(LOADERS)))
    text = FILES[name]
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 40)))
    noise = data.draw(st.text(max_size=12) | st.sampled_from(["[]", "{}", "=", '"', "''", "1", "true", "\n[x]\n"]))
    (tree / name).write_text(text[:start] + noise + text[stop:], encoding="utf-8")
    try:
        LOADERS[name](tree)
    except AbhError as error:
        assert str(tree / name) in str(error)
        assert error.next_step
    finally:
        (tree / name).write_text(text, encoding="utf-8")


# --- names and runs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Bad_Name", "a--b", "-a", "a-", "a.b", "a@b", "a~b", "ä"])
def test_an_ill_formed_file_name_is_refused(tree: Path, name: str) -> None:
    (tree / f"vm-configs/policies/{name}.toml").write_text(POLICY, encoding="utf-8")
    error = error_of(lambda: spec.policies(tree))
    assert error.got == name
    assert "kebab-case" in str(error)


def test_a_workload_folder_without_its_file_is_refused(tree: Path) -> None:
    (tree / "workloads/empty").mkdir()
    (tree / "workloads/_shared").mkdir()
    (tree / "workloads/_shared/x.h").write_text("", encoding="utf-8")
    assert list(spec.workloads(tree)) == ["rows"]  # git knows no empty folder: it is a left-over
    (tree / "workloads/empty/x.c").write_text("", encoding="utf-8")
    assert error_of(lambda: spec.workloads(tree)).where == tree / "workloads/empty"


def test_a_run_is_parsed_and_printed(tree: Path) -> None:
    run = spec.Run.parse("rows@kvm-hap~reg", tree)
    assert (run.workload, run.environment, run.policy) == ("rows", "kvm-hap", "reg")
    assert str(run) == "rows@kvm-hap~reg"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "not the name of a run"),
        ("rows", "<workload>@<environment>~<policy>"),
        ("rows@kvm-hap", "not the name of a run"),
        ("rows~reg@kvm-hap", "not the name of a run"),
        ("rows@kvm-hap~reg~reg", "not the name of a run"),
        ("rows@kvm-hap~reg\n", "not the name of a run"),
        ("row@kvm-hap~reg", "unknown workload `row`\n"),
        ("row@kvm-hap~reg", "did you mean `rows`"),
        ("rows@kvm-hop~reg", "did you mean `kvm-hap`"),
        ("rows@kvm-hap~rge", "did you mean `reg`"),
        ("ROWS@kvm-hap~reg", "did you mean `rows`"),
        ("../x@kvm-hap~reg", "unknown workload"),
    ],
)
def test_a_wrong_run_is_refused(tree: Path, text: str, expected: str) -> None:
    assert expected in str(error_of(lambda: spec.Run.parse(text, tree)))


def test_a_broken_neighbour_does_not_stop_a_run(tree: Path) -> None:
    (tree / "vm-configs/policies/broken.toml").write_text("=", encoding="utf-8")
    assert spec.policy(spec.Run.parse("rows@kvm-hap~reg", tree).policy, tree).name == "reg"


def test_a_file_without_an_end_is_refused_before_memory_ends(tmp_path: Path) -> None:
    endless = tmp_path / "endless.toml"
    endless.symlink_to("/dev/zero")
    assert "too large" in str(error_of(lambda: strict.read_toml(endless)))
