# SPDX-License-Identifier: MIT
"""What libvirt runs when a domain is about to start and has started (abh.policy.install puts it in place).

What is `required` it enforces twice: before the start by what the host has, after it by how the memory is mapped, which
only then can be seen. It must not call libvirt, which waits for it: all it knows is the domain's XML, on standard
input, and this host. It ends with 0, or with REFUSED where something `required` cannot be; how anything else ends, its
wrapper decides. Of Python's own library alone, as it runs in the system's Python.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import syslog
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from abh.policy import backing, host, memory

NAMESPACE = "urn:abh:libvirt-vm"
VERSION = 1  # the same as abh.policy.domain's, which has what this may not import
REFUSED = 10
STATE = Path("/run/libvirt")
PASSES_S = (2, 10, 30, 60)  # after the start; arbitrary: a guest's own start takes about as long
# Where a policy cannot be read, it is one that requires something if it has this key, alone in its line, dotted or in a
# table of one line; the wrapper looks for the same.
REQUIRES = r"""(^|[\n.{,])[ \t]*("|'|&quot;|&apos;)?required("|'|&quot;|&apos;)?[ \t]*="""
# Of [host.domain], as in abh.schema.policy, which this may not import.
DOMAIN_SETTINGS: Mapping[str, tuple[str, ...]] = {"shadow_superpages": ("0", "1")}
UNITS_KIB = {"KiB": 1, "MiB": 1024, "GiB": 1 << 20}

vm_name = ""  # whose start it is: for the log


class Refused(Exception):
    """Something required cannot be had."""


def sizes_kib(tree: ElementTree.Element) -> list[int]:
    """The sizes of the blocks that the guest's memory is made of: its NUMA cells, else all, and what is plugged in.

    Of what libvirt calls memory devices a DIMM alone is such a block. An NVDIMM is a file, of which there may be more
    than the host has memory; of virtio-mem, how much is memory changes while the guest runs.
    """
    cells = tree.findall("cpu/numa/cell")
    sizes = [_kib(each, each.get("memory", "")) for each in cells]
    if not cells:
        whole = tree.find("memory")
        assert whole is not None
        sizes = [_kib(whole, whole.text or "") - sum(_plugged_kib(tree, "", "size"))]
    return sizes + _plugged_kib(tree, "[@model='dimm']", "size")


def _plugged_kib(tree: ElementTree.Element, which: str, what: str) -> list[int]:
    return [_kib(each, each.text or "") for each in tree.findall(f"devices/memory{which}/target/{what}")]


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


def domain_cannot_be(settings: Any, tree: ElementTree.Element) -> dict[str, str]:
    """Whether [host.domain] can be had, as far as that shows before the start."""
    if not settings:
        return {}
    if tree.get("type") != "xen":
        return {"domain": "only a domain of Xen's has such settings"}
    if why := _unknown(settings):
        return {"domain": why}
    if settings.get("shadow_superpages") == "1" and (state := hap(tree)) != "off":
        needs = f"shadow_superpages: it needs shadow paging, and <hap> of the domain is {state or 'not there'}"
        return {"domain": f'{needs}: add paging = "shadow" to [vm] of the policy, or take vm-xen-shadow'}
    return {}


def _unknown(settings: Any) -> str | None:
    """What of [host.domain] this hook does not know, and so nobody does."""
    if not isinstance(settings, Mapping):
        return "it is no table"
    if names := [name for name in settings if name not in DOMAIN_SETTINGS]:
        return f"{', '.join(names)}: this hook knows {', '.join(DOMAIN_SETTINGS)} alone"
    wrong = [f"{name} is {value!r}" for name, value in settings.items() if value not in DOMAIN_SETTINGS[name]]
    return f"{', '.join(wrong)}: this hook knows no such value" if wrong else None


def hap(tree: ElementTree.Element) -> str | None:
    """What <hap> of a domain of Xen's says, on or off; None where there is none."""
    found = tree.find("features/hap")
    return None if found is None else found.get("state", "on")


def _xen(vm: Mapping[str, Any], tree: ElementTree.Element) -> dict[str, str]:
    state = hap(tree)
    wanted = {"hap": "on", "shadow": "off"}.get(vm.get("paging", ""))
    if wanted is not None and state != wanted:
        return {"paging": f"<hap> of the domain is {state or 'not there'}: run `abh policy apply`"}
    return {}


def _linux(vm: Mapping[str, Any], tree: ElementTree.Element, root: Path) -> dict[str, str]:
    found = {}
    mode, told = host.thp(root)
    if vm.get("thp") == "advised" and mode in (None, "never"):
        found["thp"] = told
    if vm.get("thp") == "off" and mode not in (None, "never"):
        found["thp"] = f"{told}, and QEMU advises hugepages for all guests"
    if (size := vm.get("hugetlb_kib")) is not None:
        lacks = _lacks_pages(size, tree, root)
        requested = _plugged_kib(tree, "[@model='virtio-mem']", "requested")
        free, need = host.free_pool_kib(size, root), sum(sizes_kib(tree) + requested)
        if lacks:
            found["hugetlb_kib"] = f"{lacks}: run `abh policy apply`"
        elif free is None or free < need:
            has = "no such pool" if free is None else f"{free} KiB free"
            path = "/" + host.POOL.format(kib=size)
            found["hugetlb_kib"] = f"{path}: {has}, and the guest needs {need} KiB: raise nr_hugepages"
    if vm.get("ksm") is False and tree.find("memoryBacking/nosharepages") is None:
        found["ksm"] = "the domain has no <nosharepages/>: run `abh policy apply`"
    return found


def _lacks_pages(size: int, tree: ElementTree.Element, root: Path) -> str | None:
    """How the domain asks for no pages of that size from the pool; None if it does, be it as the host's default."""
    asked = tree.find("memoryBacking/hugepages")
    named = [] if asked is None else [each.get("size") for each in asked.findall("page")]
    if asked is None or named:
        return None if str(size) in named else f"the domain has no <hugepages> of {size} KiB"
    default = host.default_pool_kib(root)
    if default == size:
        return None
    told = f"{default} KiB" if default else "not known"
    return f"<hugepages> of the domain names no size, and this host's default is {told}, not {size} KiB"


def policy_of(tree: ElementTree.Element) -> tuple[Mapping[str, Any], tuple[str, ...]] | None:
    """The policy in a domain's metadata, as a table, and what it requires; None where there is none.

    What is required stands in an attribute, and in the policy's own text. Whoever edits the domain by hand may have
    only one of them: either counts.
    """
    kept = tree.find(f"metadata/{{{NAMESPACE}}}vm")
    if kept is None:
        return None
    text = kept.findtext(f"{{{NAMESPACE}}}policy") or ""
    required = (kept.get("required") or "").split()
    try:
        if int(kept.get("version", "")) > VERSION:
            raise ValueError(
                f"it is of version {kept.get('version')}, this hook knows {VERSION}: install its newer one"
            )
        table = tomllib.loads(text)
        vm = table.get("vm", {})
        if not all(isinstance(table.get(name, {}), dict) for name in ("vm", "guest", "host")):
            raise ValueError("its tables are none")
        if not isinstance(vm.get("required", []), list) or not all(isinstance(x, str) for x in vm.get("required", [])):
            raise ValueError("its `required` is no list of names")
        required += [name for name in vm.get("required", []) if name not in required]
    except ValueError as error:
        if required or re.search(REQUIRES, text):
            raise Refused(f"the policy cannot be read: {error}") from None
        say(f"the policy cannot be read, and nothing of it is required: {error}")
        return None
    return (table, tuple(required)) if text or required else None


def _enforce(ruled_out: Mapping[str, str], required: Sequence[str]) -> None:
    """Says what cannot be or is not; refused is what is required of it."""
    for name, reason in ruled_out.items():
        say(f"{name}: {reason}")
    if refused := [f"{name}: {reason}" for name, reason in ruled_out.items() if name in required]:
        raise Refused("; ".join(refused))


def _is_set(name: str, table: Mapping[str, Any]) -> bool:
    places = {"guest": ("guest", "sysfs"), "host": ("host", "sysfs"), "domain": ("host", "domain")}
    above, key = places.get(name, ("vm", name))
    return bool(key in table.get(above, {}))


def prepare(tree: ElementTree.Element, root: Path = host.ROOT) -> None:
    """Before the start: refuses what is required and cannot be."""
    found = policy_of(tree)
    if found is None:
        return
    table, required = found
    ruled_out = cannot_be(table.get("vm", {}), tree, root)
    ruled_out |= domain_cannot_be(table.get("host", {}).get("domain"), tree)
    for path, wanted in table.get("host", {}).get("sysfs", {}).items():
        if (now := host.setting(path, root)) != wanted:
            ruled_out.setdefault("host", f"{path} is {now or 'not there'}, not {wanted}")
    for name in required:
        if not _is_set(name, table):
            ruled_out[name] = "it is required, and the policy does not say what it is to be"
    _enforce(ruled_out, required)


def started(tree: ElementTree.Element, root: Path = host.ROOT, proc: Path = memory.PROC) -> None:
    """After the start: superpages of Xen's at once, collapsing beside the guest, in the background."""
    found = policy_of(tree)
    if found is None:
        return
    table, required = found
    if tree.get("type") == "xen":
        _enforce(_superpages(table.get("host", {}).get("domain", {}), tree.get("id", "")), required)
        return
    vm = table.get("vm", {})
    _enforce(is_not(vm, tree, root, proc), required)
    if vm.get("collapse") == "start":
        in_background(tree.findtext("uuid") or "", tree.findtext("name") or "", sizes_kib(tree))


def _superpages(settings: Any, number: str) -> dict[str, str]:
    """Has Xen do what [host.domain] says; what it does not, with the reason."""
    found = [unknown] if (unknown := _unknown(settings)) else []
    value = settings.get("shadow_superpages") if isinstance(settings, Mapping) else None
    if value in DOMAIN_SETTINGS["shadow_superpages"]:
        try:
            words = ["xen-superpages", number, str(value)]
            done = subprocess.run(words, capture_output=True, text=True, timeout=5, check=False)
            why = (done.stderr.strip() or f"status {done.returncode}") if done.returncode else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            why = str(error)
        found += [f"shadow_superpages: {why}"] if why else []
    return {"domain": "; ".join(found)} if found else {}


def is_not(
    vm: Mapping[str, Any], tree: ElementTree.Element, root: Path = host.ROOT, proc: Path = memory.PROC
) -> dict[str, str]:
    """The settings that the memory of a VM that has just started does not have, each with the reason."""
    wanted = {name: vm[name] for name in (*backing.CHECKS, "collapse") if name in vm}
    if not wanted:
        return {}
    note = root / str(STATE / memory.PID_FILE.format(name=tree.findtext("name"))).lstrip("/")
    pid = memory.process_of(tree.findtext("uuid") or "", proc, note)
    found = {}
    try:
        if pid is None:
            raise memory.Unreadable("there is no process of QEMU's for it that can be seen, or more than one")
        blocks = memory.guest_memory(memory.mappings(pid, proc), sizes_kib(tree))
        for name, check in backing.CHECKS.items():
            if name in wanted and not (had := check(wanted[name], blocks, root)).holds:
                found[name] = f"{had.evidence}: {had.next_step}"
    except memory.Unreadable as error:
        return dict.fromkeys(wanted, str(error))
    if wanted.get("collapse") == "start":
        try:
            next(memory.ranges(pid, blocks[0].start, blocks[0].start + memory.HUGE, proc), None)
            memory.collapse(pid, [])
        except memory.Unreadable as error:
            found["collapse"] = str(error)
    return found


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
    failed: Mapping[str, int] = {}
    for at in passes_s:
        time.sleep(max(0.0, begin + at - time.monotonic()))
        pid = memory.process_of(uuid, pid_file=note)
        if pid is None:
            return
        done = collapse(pid, sizes)
        made += done.made
        failed = done.failed or {}
    say(f"collapse: {made} hugepages made; not made in the last pass: {dict(failed) or 'none'}", syslog.LOG_INFO)


def collapse(pid: int, sizes: Sequence[int]) -> memory.Collapsed:
    """One pass over the memory of a guest."""
    places = [
        place
        for each in memory.guest_memory(memory.mappings(pid), sizes)
        for place in memory.not_huge(pid, each.start, each.end)
    ]
    return memory.collapse(pid, places)


def say(line: str, level: int = syslog.LOG_WARNING) -> None:
    """To the system's log, which VM it is about first."""
    with contextlib.suppress(OSError):
        syslog.openlog("abh")
        syslog.syslog(level, f"VM {vm_name!r}: {line}")


def main(words: Sequence[str]) -> int:
    """The hook: `<domain> <operation> <begin or end> <more>`."""
    steps = {("prepare", "begin"): prepare, ("started", "begin"): started}
    step = steps.get((words[1], words[2])) if len(words) > 2 else None
    if step is None:
        return 0
    global vm_name
    vm_name = words[0]
    try:
        step(ElementTree.fromstring(sys.stdin.buffer.read()))
    except Refused as error:
        say(f"refused: {error}")
        print(f"abh: the policy of {words[0]!r} requires what cannot be: {error}", file=sys.stderr)
        return REFUSED
    return 0
