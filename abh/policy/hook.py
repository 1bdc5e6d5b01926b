# SPDX-License-Identifier: MIT
"""What libvirt runs when a domain is about to start and has started (abh.policy.install puts it in place).

It must not call libvirt, which waits for it: all it knows is the domain's XML, on standard input, and this host. It
ends with 0, or with REFUSED where something `required` cannot be; how anything else ends, its wrapper decides. Of
Python's own library alone, as it runs in the system's Python.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import syslog
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from abh.policy import host, memory

NAMESPACE = "urn:abh:libvirt-vm"
VERSION = 1  # the same as abh.policy.domain's, which has what this may not import
REFUSED = 10
RECORDS = Path("/run/abh")
STATE = Path("/run/libvirt")
PASSES_S = (2, 10, 30, 60)  # after the start; arbitrary: a guest's own start takes about as long
UNITS_KIB = {"KiB": 1, "MiB": 1024, "GiB": 1 << 20}


class Refused(Exception):
    """Something required cannot be had."""


def sizes_kib(tree: ElementTree.Element) -> list[int]:
    """The sizes of the blocks that the guest's memory is made of: its NUMA cells, else all, and what is plugged in."""
    cells = tree.findall("cpu/numa/cell")
    plugged = [each for each in tree.findall("devices/memory/target/size")]
    sizes = [_kib(each, each.get("memory", "")) for each in cells]
    if not cells:
        whole = tree.find("memory")
        assert whole is not None
        sizes = [_kib(whole, whole.text or "") - sum(_kib(each, each.text or "") for each in plugged)]
    return sizes + [_kib(each, each.text or "") for each in plugged]


def _kib(element: ElementTree.Element, number: str) -> int:
    return int(number) * UNITS_KIB[element.get("unit", "KiB")]


def cannot_be(vm: Mapping[str, Any], tree: ElementTree.Element, root: Path = host.ROOT) -> dict[str, str]:
    """The settings that this host, or this domain's XML, rules out before the start, each with the reason."""
    kind = tree.get("type")
    found = _xen(vm, tree) if kind == "xen" else _linux(vm, tree, root)
    if kind == "kvm" and (wanted := vm.get("paging")) is not None:
        mode, evidence = host.paging(root)
        if mode != wanted:
            found["paging"] = f"{evidence}; it is one mode for all guests: load the module with another, or move the VM"
    elif kind == "qemu" and "paging" in vm:
        found["paging"] = "an emulated domain (type='qemu') has no paging of a hypervisor's"
    return found


def _xen(vm: Mapping[str, Any], tree: ElementTree.Element) -> dict[str, str]:
    hap = tree.find("features/hap")
    state = None if hap is None else hap.get("state", "on")
    wanted = {"hap": "on", "shadow": "off"}.get(vm.get("paging", ""))
    if wanted is not None and state != wanted:
        return {"paging": f"<hap> of the domain is {state or 'not there'}: run `abh policy apply`"}
    return {}


def _linux(vm: Mapping[str, Any], tree: ElementTree.Element, root: Path) -> dict[str, str]:
    found = {}
    mode = host.setting(f"{host.THP}/enabled", root)
    if vm.get("thp") == "advised" and mode in (None, "never"):
        found["thp"] = f"/{host.THP}/enabled is {mode or 'not there'}"
    if vm.get("thp") == "off" and mode not in (None, "never"):
        found["thp"] = f"/{host.THP}/enabled is {mode}, and QEMU advises hugepages for all guests"
    if (size := vm.get("hugetlb_kib")) is not None:
        pages = {each.get("size") for each in tree.findall("memoryBacking/hugepages/page")}
        free, need = host.free_pool_kib(size, root), sum(sizes_kib(tree))
        if str(size) not in pages:
            found["hugetlb_kib"] = f"the domain has no <hugepages> of {size} KiB: run `abh policy apply`"
        elif free is None or free < need:
            has = "no such pool" if free is None else f"{free} KiB free"
            path = "/" + host.POOL.format(kib=size)
            found["hugetlb_kib"] = f"{path}: {has}, and the guest needs {need} KiB: raise nr_hugepages"
    if vm.get("ksm") is False and tree.find("memoryBacking/nosharepages") is None:
        found["ksm"] = "the domain has no <nosharepages/>: run `abh policy apply`"
    return found


def policy_of(tree: ElementTree.Element) -> tuple[Mapping[str, Any], tuple[str, ...]] | None:
    """The policy in a domain's metadata, as a table, and what it requires; None where there is none."""
    kept = tree.find(f"metadata/{{{NAMESPACE}}}vm")
    if kept is None or not kept.get("policy"):
        return None
    required = tuple((kept.get("required") or "").split())
    try:
        if int(kept.get("version", "")) > VERSION:
            raise ValueError(
                f"it is of version {kept.get('version')}, this hook knows {VERSION}: install its newer one"
            )
        table = tomllib.loads(kept.findtext(f"{{{NAMESPACE}}}policy") or "")
        if not all(isinstance(table.get(name, {}), dict) for name in ("vm", "host")):
            raise ValueError("its tables are none")
    except ValueError as error:
        if required:
            raise Refused(f"the policy cannot be read: {error}") from None
        say(f"the policy cannot be read, and nothing of it is required: {error}")
        return None
    return table, required


def prepare(tree: ElementTree.Element, root: Path = host.ROOT) -> None:
    """Before the start: refuses what is required and cannot be."""
    found = policy_of(tree)
    if found is None:
        return
    table, required = found
    ruled_out = cannot_be(table.get("vm", {}), tree, root)
    for path, wanted in table.get("host", {}).get("sysfs", {}).items():
        if (now := host.setting(path, root)) != wanted:
            ruled_out.setdefault("host", f"{path} is {now or 'not there'}, not {wanted}")
    for name, reason in ruled_out.items():
        say(f"{name}: {reason}")
    if refused := [f"{name}: {reason}" for name, reason in ruled_out.items() if name in required]:
        raise Refused("; ".join(refused))


def started(tree: ElementTree.Element) -> None:
    """After the start: superpages of Xen's at once, collapsing beside the guest, in the background."""
    found = policy_of(tree)
    if found is None:
        return
    table, required = found
    settings = table.get("host", {}).get("domain", {})
    if tree.get("type") == "xen" and "shadow_superpages" in settings:
        words = ["xen-superpages", tree.get("id", ""), str(settings["shadow_superpages"])]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=5, check=False)
            why = done.stderr.strip() if done.returncode else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            why = str(error)
        if why:
            say(f"domain: shadow_superpages: {why}")
            if "domain" in required:
                raise Refused(f"domain: shadow_superpages: {why}")
    if tree.get("type") != "xen" and table.get("vm", {}).get("collapse") == "start":
        in_background(tree.findtext("uuid") or "", tree.findtext("name") or "", sizes_kib(tree))


def in_background(uuid: str, name: str, sizes: Sequence[int]) -> None:
    """Lets go of libvirt, which waits for all that has its pipes, and collapses while the guest fills its memory."""
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.closerange(3, 256)
    try:
        watch(uuid, STATE / memory.PID_FILE.format(name=name), sizes, PASSES_S)
    except Exception as error:
        say(f"collapse: {error}")
    finally:
        os._exit(0)


def watch(uuid: str, note: Path, sizes: Sequence[int], passes_s: Sequence[float]) -> None:
    """Passes over the guest's memory until the last is done, or the guest has gone."""
    begin, made = time.monotonic(), 0
    for at in passes_s:
        time.sleep(max(0.0, begin + at - time.monotonic()))
        pid = memory.process_of(uuid, pid_file=note)
        if pid is None:
            return
        done = collapse(pid, sizes)
        made += done.made
        keep_record(uuid, pid, "start", made, done.failed or {})


def collapse(pid: int, sizes: Sequence[int]) -> memory.Collapsed:
    """One pass over the memory of a guest."""
    places = [
        place
        for each in memory.guest_memory(memory.mappings(pid), sizes)
        for place in memory.not_huge(pid, each.start, each.end)
    ]
    return memory.collapse(pid, places)


def keep_record(uuid: str, pid: int, by: str, made: int, failed: Mapping[str, int]) -> None:
    """Notes for `abh policy verify` what has been done for a process."""
    RECORDS.mkdir(mode=0o755, exist_ok=True)
    record = {"pid": pid, "started": memory.started(pid), "by": by, "made": made, "failed": dict(failed)}
    path = RECORDS / f"{uuid}.json"
    path.with_suffix(".new").write_text(json.dumps(record))
    path.with_suffix(".new").replace(path)


def say(line: str) -> None:
    """To the system's log, and to libvirt, which shows it where the start is refused."""
    with contextlib.suppress(OSError):
        syslog.syslog(syslog.LOG_WARNING, f"abh: {line}")


def main(words: Sequence[str]) -> int:
    """The hook: `<domain> <operation> <begin or end> <more>`."""
    steps = {("prepare", "begin"): prepare, ("started", "begin"): started}
    step = steps.get((words[1], words[2])) if len(words) > 2 else None
    if step is None:
        return 0
    try:
        step(ElementTree.fromstring(sys.stdin.buffer.read()))
    except Refused as error:
        print(f"abh: the policy of {words[0]!r} requires what cannot be: {error}", file=sys.stderr)
        return REFUSED
    return 0
