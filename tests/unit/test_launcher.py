# SPDX-License-Identifier: MIT
"""bin/abh: the machine it meets, the environment it makes, and what it says when it cannot.

The real pip is slow and needs a network, so a stand-in Python makes an "environment" whose steps the tests control.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from abh.paths import CHECKOUT

PATIENCE_S = 30
TOOLS = "sh awk cat cp date dirname env flock grep id mkdir printf readlink rm sed sha256sum sleep sync tail tee"

# Behaves like `python3` as far as the launcher goes: -V, -c 'import x', -m venv DIR, DIR/bin/python -m pip.
FAKE_PYTHON = """#!/bin/sh
case "$*" in
-V) echo "Python ${FAKE_VERSION:-3.12.1}" ;;
"-I -c import "*) [ ! -e "$FAKE/no-ensurepip" ] ;;
"-I -m venv "*)
	echo venv >>"$FAKE/calls"
	mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
"-I -m pip "*)
	echo pip >>"$FAKE/calls"
	[ ! -e "$FAKE/pip-says" ] || cat "$FAKE/pip-says"
	echo "Collecting one==1"
	[ -z "${PIP_TARGET-}" ] || echo pip-elsewhere >>"$FAKE/calls"
	while [ -e "$FAKE/hang" ]; do sleep 0.05; done
	[ ! -e "$FAKE/no-network" ] || { echo "ERROR: no network"; exit 1; }
	echo pip-done >>"$FAKE/calls" ;;
*)
	echo "ran: $*"
	echo "PYTHONPATH=$PYTHONPATH"
	exit "${FAKE_STATUS:-0}" ;;
esac
"""


class Machine:
    """A checkout with only the launcher's files, and a PATH with only what the test puts there."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.checkout = top / "checkout"
        self.cache = top / "cache"
        self.fake = top / "fake"
        self.path = top / "path"
        for folder in (self.checkout / "bin", self.checkout / "abh", self.fake, self.path):
            folder.mkdir(parents=True)
        shutil.copy(CHECKOUT / "bin/abh", self.checkout / "bin/abh")
        (self.checkout / "abh/cli.py").touch()
        (self.checkout / "requirements.txt").write_text("one==1\n")
        (self.checkout / "requirements-dev.txt").write_text("two==2\n")
        self.packages("python3 python3 all why\npython3-venv python3:ensurepip all why\n")
        for name in TOOLS.split():
            (self.path / name).symlink_to(shutil.which(name) or pytest.fail(f"no {name}"))
        self.script("python3", FAKE_PYTHON)

    def packages(self, text: str) -> None:
        (self.checkout / "requirements-system.txt").write_text("# heading\n" + text)

    def script(self, name: str, text: str) -> None:
        (self.path / name).unlink(missing_ok=True)
        (self.path / name).write_text(text)
        (self.path / name).chmod(0o755)

    def user(self, uid: int) -> None:
        self.script("id", f"#!/bin/sh\necho {uid}\n")

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        env = {"PATH": str(self.path), "HOME": str(self.top), "ABH_CACHE": str(self.cache), "FAKE": str(self.fake)}
        return subprocess.Popen(
            [str(self.checkout / "bin/abh"), *arguments],
            env={**env, "ABH_PYTHON": "python3", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, err

    def calls(self) -> list[str]:
        path = self.fake / "calls"
        return path.read_text().split() if path.exists() else []

    def wait_for_call(self, name: str, count: int = 1) -> None:
        end = time.monotonic() + PATIENCE_S
        while self.calls().count(name) < count:
            assert time.monotonic() < end, f"no {name} after {PATIENCE_S} s; calls: {self.calls()}"
            time.sleep(0.02)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_first_start_makes_the_environment_and_the_next_uses_it(machine):
    status, out, err = machine.run("list", "a b", "--x")
    assert status == 0, err
    assert out.splitlines() == ["ran: -P -m abh list a b --x", f"PYTHONPATH={machine.checkout}"]
    assert "making the Python environment" in err
    assert machine.calls() == ["venv", "pip", "pip-done"]
    status, out, err = machine.run("list")
    assert (status, err) == (0, "")
    assert machine.calls() == ["venv", "pip", "pip-done"]


def test_the_status_is_that_of_the_command(machine):
    assert machine.run("x", FAKE_STATUS="7")[0] == 7


@pytest.mark.parametrize("change", ["requirements", "requirements-dev", "version"])
def test_other_requirements_or_another_python_make_another_environment(machine, change):
    machine.run()
    version = "3.12.1"
    if change == "version":
        version = "3.13.0"
    else:
        (machine.checkout / f"{change}.txt").write_text("three==3\n")
    machine.run(FAKE_VERSION=version)
    assert machine.calls().count("pip-done") == 2
    assert len(list((machine.cache / "python").glob("*/complete"))) == 2


def test_a_failing_pip_is_told_and_the_next_start_mends_it(machine):
    (machine.fake / "no-network").touch()
    status, out, err = machine.run("list")
    assert (status, out) == (1, "")
    assert "| ERROR: no network" in err
    assert "next:" in err
    (machine.fake / "no-network").unlink()
    assert machine.run("list")[0] == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_start_is_no_obstacle_to_the_next(machine, number):
    (machine.fake / "hang").touch()
    first = machine.start("list")
    machine.wait_for_call("pip")
    os.killpg(first.pid, number)
    first.communicate(timeout=PATIENCE_S)
    assert first.returncode != 0
    assert not list((machine.cache / "python").glob("*/complete"))
    (machine.fake / "hang").unlink()
    status, out, err = machine.run("list")
    assert status == 0, err
    assert out.startswith("ran:")


def test_two_starts_at_once_make_one_environment(machine):
    (machine.fake / "hang").touch()
    first = machine.start("one")
    machine.wait_for_call("pip")
    second = machine.start("two")
    assert "waiting for it" in second.stderr.readline()
    (machine.fake / "hang").unlink()
    outputs = [process.communicate(timeout=PATIENCE_S) for process in (first, second)]
    assert [process.returncode for process in (first, second)] == [0, 0], outputs
    assert machine.calls() == ["venv", "pip", "pip-done"]


def test_an_environment_whose_python_is_gone_is_made_again(machine):
    machine.run()
    (python,) = (machine.cache / "python").glob("*/bin/python")
    python.unlink()
    python.symlink_to("/nonexistent/python3.12")
    assert machine.run("list")[0] == 0
    assert machine.calls().count("pip-done") == 2


def test_a_user_gets_one_line_to_paste(machine):
    machine.user(1000)
    machine.script("sudo", "#!/bin/sh\n")
    machine.packages("bubblewrap bwrap all why\nzstd zstd all why\nuidmap newuidmap user why\npatch cat all why\n")
    machine.script("apt-get", '#!/bin/sh\necho "apt-get $*" >>"$FAKE/calls"\n')
    status, out, err = machine.run("list")
    assert (status, out) == (1, "")
    assert (
        "  sudo apt-get update && sudo apt-get install -y --no-install-recommends bubblewrap zstd uidmap"
        in err.splitlines()
    )
    assert machine.calls() == []


def test_a_user_without_sudo_gets_a_line_for_su(machine):
    machine.user(1000)
    machine.packages("bubblewrap bwrap all why\nzstd zstd all why\n")
    machine.script("apt-get", "#!/bin/sh\n")
    _, _, err = machine.run("list")
    line = "su -c 'apt-get update && apt-get install -y --no-install-recommends bubblewrap zstd'"
    assert f"  {line}" in err.splitlines()


def test_the_progress_of_pip_is_of_what_it_collects(machine):
    # As uv writes them: hashes, remarks, what both files have, and what is of Windows alone.
    names = [f"package{number}" for number in range(41)]
    pins = [f"{name}==1 \\\n    --hash=sha256:{'0' * 64}\n    # via other\n" for name in names]
    of_windows = "colorama==1 ; sys_platform == 'win32' \\\n    --hash=sha256:1\n"
    of_windows += "cffi==1 ; implementation_name != 'pypy' and os_name == 'nt' \\\n    --hash=sha256:2\n"
    (machine.checkout / "requirements.txt").write_text("# heading\n" + "".join(pins[:21]))
    other = (
        "".join(pins[20:])
        + of_windows
        + "librt==1 ; platform_python_implementation != 'PyPy' \\\n    --hash=sha256:3\n"
    )
    (machine.checkout / "requirements-dev.txt").write_text(other)
    said = "".join(f"Collecting {name}==1 (from -r x)\n  Using cached it\n" for name in [*names, "librt"])
    said += f"Installing collected packages: {', '.join([*names, 'librt'])}\n"
    (machine.fake / "pip-says").write_text(said)
    status, _, err = machine.run("list")
    assert status == 0, err
    assert [line for line in err.splitlines() if " of " in line or "unpacking" in line] == [
        "abh: Python package 20 of 42: package19==1",
        "abh: Python package 40 of 42: package39==1",
        "abh: unpacking 42 packages ...",
    ]


def test_pip_installs_nowhere_else(machine):
    machine.run("list", PIP_TARGET="/elsewhere")
    assert machine.calls() == ["venv", "pip", "pip-done"]


def test_a_python_that_was_named_wrongly_is_told_and_none_is_installed(machine):
    machine.user(0)
    machine.script("apt-get", '#!/bin/sh\necho apt-get >>"$FAKE/calls"\n')
    status, _, err = machine.run("list", ABH_PYTHON="/nonexistent/python3")
    assert status == 1 and "ABH_PYTHON names no Python" in err and "got: /nonexistent/python3" in err
    assert machine.calls() == []


def test_a_python_may_have_a_blank_in_its_path(machine):
    (machine.top / "a b").mkdir()
    shutil.copy(machine.path / "python3", machine.top / "a b/python3")
    (machine.path / "python3").unlink()
    status, _, err = machine.run("list", ABH_PYTHON=f"{machine.top}/a b/python3")
    assert status == 0, err


def test_root_gets_the_packages_installed_and_is_told(machine):
    machine.user(0)
    machine.packages("python3 python3 all why\nbubblewrap bwrap all why\nuidmap newuidmap user why\n")
    machine.script(
        "apt-get",
        '#!/bin/sh\necho "$DEBIAN_FRONTEND:$*" | tr " " _ >>"$FAKE/calls"; cp "$0" "${0%/*}/bwrap"; echo noise\n',
    )
    (machine.path / "tr").symlink_to(shutil.which("tr"))
    status, out, err = machine.run("list")
    assert status == 0, err
    assert machine.calls()[:2] == [
        "noninteractive:-q_update",
        "noninteractive:-q_install_-y_--no-install-recommends_bubblewrap",
    ]
    assert "installing system packages: bubblewrap" in err
    assert "noise" not in out
    assert "noise" in err


def test_two_starts_at_once_install_packages_once(machine):
    machine.user(0)
    machine.packages("python3 python3 all why\nbubblewrap bwrap all why\n")
    machine.script(
        "apt-get",
        '#!/bin/sh\necho "$2" >>"$FAKE/calls"; sleep 1; if [ "$2" = install ]; then cp "$0" "${0%/*}/bwrap"; fi\n',
    )
    both = [machine.start("list") for _ in range(2)]
    said = [each.communicate(timeout=PATIENCE_S)[1] for each in both]
    assert [each.returncode for each in both] == [0, 0], said
    assert machine.calls().count("install") == 1
    assert any("another abh is installing packages" in each for each in said)


def test_a_machine_without_python_gets_one(machine):
    machine.user(0)
    (machine.path / "python3").rename(machine.path / "python3.hidden")
    machine.script("apt-get", '#!/bin/sh\ncp "${0%/*}/python3.hidden" "${0%/*}/python3"\n')
    status, out, err = machine.run("list")
    assert status == 0, err
    assert "installing system packages: python3 python3-venv" in err
    assert out.startswith("ran:")


def test_a_missing_venv_module_is_asked_for_only_to_make_the_environment(machine):
    machine.user(1000)
    (machine.fake / "no-ensurepip").touch()
    machine.script("apt-get", "#!/bin/sh\n")
    status, _, err = machine.run("list")
    assert status == 1
    assert "--no-install-recommends python3-venv" in err
    (machine.fake / "no-ensurepip").unlink()
    machine.run("list")
    (machine.fake / "no-ensurepip").touch()
    assert machine.run("list")[0] == 0


def test_a_failing_apt_is_told(machine):
    machine.user(0)
    machine.packages("bubblewrap bwrap all why\n")
    machine.script("apt-get", "#!/bin/sh\necho 'E: no mirror' >&2; exit 100\n")
    status, _, err = machine.run("list")
    assert status == 1
    assert "E: no mirror" in err
    assert "next: mend apt" in err


def test_packages_that_install_and_still_lack_are_told(machine):
    machine.user(0)
    machine.packages("bubblewrap bwrap all why\n")
    machine.script("apt-get", "#!/bin/sh\n")
    status, _, err = machine.run("list")
    assert status == 1
    assert "still missing" in err


def test_a_machine_without_apt_is_told_what_it_lacks(machine):
    machine.packages("bubblewrap bwrap all why\n")
    status, _, err = machine.run("list")
    assert status == 1
    assert "no apt-get" in err
    assert "missing: bubblewrap" in err


@pytest.mark.parametrize("uid", [0, 1000])
def test_exec_wants_a_python_and_nothing_else(machine, uid):
    machine.user(uid)
    machine.packages("bubblewrap bwrap all why\npython3-venv python3:ensurepip all why\n")
    machine.script("apt-get", '#!/bin/sh\necho apt-get >>"$FAKE/calls"\n')
    (machine.fake / "no-ensurepip").touch()
    status, out, err = machine.run("exec", "a b", "--x", PYTHONPATH="theirs", HOME="", ABH_CACHE="")
    assert (status, err, machine.calls()) == (0, "", [])
    assert out.splitlines()[0].endswith(f" {machine.checkout} exec a b --x") and "PYTHONPATH=theirs" in out
    assert not machine.cache.exists()


@pytest.mark.parametrize("command", ["list", "exec"])
@pytest.mark.parametrize("version", ["2.7.18", "3.9.2", "3.10.14"])
def test_an_old_python_is_refused(machine, command, version):
    status, _, err = machine.run(command, FAKE_VERSION=version)
    assert status == 1
    assert "Python is too old" in err
    assert version in err
    assert "3.11" in err


def test_a_cache_that_cannot_be_written_is_told(machine):
    blocked = machine.top / "file"
    blocked.touch()
    status, _, err = machine.run("list", ABH_CACHE=str(blocked))
    assert status == 1
    assert "cannot write to the cache" in err


@pytest.mark.parametrize("full", ["before", "meanwhile"])
def test_a_full_cache_is_told(machine, full):
    (machine.fake / "no-network").touch()
    machine.run("list")
    (environment,) = (machine.cache / "python").glob("*-*.log")
    room = environment.with_suffix(".room")
    assert not room.exists()
    if full == "before":
        room.symlink_to("/dev/full")
    else:
        words = f'#!/bin/sh\n[ "${{2-}}" != -m ] || ln -s /dev/full {room}\n'
        machine.script("python3", FAKE_PYTHON.replace("#!/bin/sh\n", words))
        machine.path.joinpath("ln").symlink_to(shutil.which("ln"))
    machine.fake.joinpath("calls").unlink()
    status, out, err = machine.run("list")
    assert (status, out) == (1, "") and "abh: No space left in the cache" in err
    assert f"where: {machine.cache}" in err and "next: free some" in err
    assert machine.calls() == ([] if full == "before" else ["venv", "pip"])


def test_the_cache_is_where_it_is_said_to_be(machine):
    machine.run("list", ABH_CACHE="", XDG_CACHE_HOME=str(machine.top / "xdg"))
    assert list((machine.top / "xdg/abh/python").glob("*/complete"))
    machine.run("list", ABH_CACHE="", XDG_CACHE_HOME="")
    assert list((machine.top / ".cache/abh/python").glob("*/complete"))


def test_no_home_and_no_cache_is_told(machine):
    status, _, err = machine.run("list", ABH_CACHE="", HOME="")
    assert status == 1
    assert "no home directory" in err


def test_it_runs_through_a_link_and_from_a_path_with_a_blank(tmp_path):
    machine = Machine(tmp_path / "a b")
    link = tmp_path / "abh"
    link.symlink_to(machine.checkout / "bin/abh")
    env = {
        "PATH": str(machine.path),
        "HOME": "/nonexistent",
        "ABH_CACHE": str(machine.cache),
        "FAKE": str(machine.fake),
    }
    env["ABH_PYTHON"] = "python3"
    done = subprocess.run([str(link), "list"], env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert f"PYTHONPATH={machine.checkout}" in done.stdout


def pins(name: str) -> dict[str, tuple[str, list[str]]]:
    """Package -> its version and the hashes that its files may have."""
    found = {}
    for entry in re.split(r"\n(?=[A-Za-z])", re.sub(r"(?m)^ *#.*\n", "", (CHECKOUT / name).read_text())):
        package, version = re.match(r"([\w.-]+)==(\S+)", entry).groups()
        assert package not in found
        found[package] = version, re.findall(r"--hash=(sha256:[0-9a-f]{64})", entry)
    return found


def test_every_pin_is_exact_has_hashes_and_is_the_same_in_both_files():
    run, develop = pins("requirements.txt"), pins("requirements-dev.txt")
    assert all(hashes for _, hashes in (run | develop).values())
    assert {name: develop[name] for name in run.keys() & develop} == {name: run[name] for name in run.keys() & develop}


@pytest.mark.parametrize("name", ["requirements", "requirements-dev"])
def test_every_package_that_is_asked_for_is_pinned(name):
    asked = [line for line in (CHECKOUT / f"{name}.in").read_text().splitlines() if line and line[0] != "#"]
    assert {line.partition("==")[0].replace(".", "-") for line in asked} <= pins(f"{name}.txt").keys()


def test_no_file_of_the_front_door_names_a_host():
    for name in ("bin/abh", "requirements.txt", "requirements-dev.txt", "requirements-system.txt", "pyproject.toml"):
        text = (CHECKOUT / name).read_text()
        assert "://" not in text, name
        assert "--index-url" not in text, name
