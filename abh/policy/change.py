# SPDX-License-Identifier: MIT
"""What a policy changes in a domain's XML, and how that is taken back.

What was there before, and what is written, is kept as JSON: a place that somebody has changed since is left alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

from abh.errors import AbhError
from abh.policy import xml
from abh.schema.policy import Policy, VmPolicy

HAP = "features/hap"
HUGEPAGES = "memoryBacking/hugepages"
NO_SHARING = "memoryBacking/nosharepages"
SOURCE = "memoryBacking/source"
ACCESS = "memoryBacking/access"
ALLOCATION = "memoryBacking/allocation"
CMDLINE = "os/cmdline"
PLACES = (HAP, HUGEPAGES, NO_SHARING, SOURCE, ACCESS, ALLOCATION, CMDLINE)
AFTER = {"features": "os", "memoryBacking": "memory", "os": "vcpu"}


@dataclass(frozen=True)
class Changed:
    """A domain's XML, what the changed places were and are, and in words what has changed."""

    document: str
    before: str
    said: tuple[str, ...]


def wanted(policy: VmPolicy, hypervisor: str, was: Mapping[str, str | None]) -> dict[str, str | None]:
    """The places a policy decides, with the XML that is to be there, or None for nothing; by what was there before."""
    places: dict[str, str | None] = {}
    if hypervisor == "xen":
        if policy.paging is not None:
            places[HAP] = f'<hap state="{"on" if policy.paging == "hap" else "off"}" />'
        return places
    if policy.hugetlb_kib is not None:
        places[HUGEPAGES] = f'<hugepages><page size="{policy.hugetlb_kib}" unit="KiB" /></hugepages>'
    elif policy.thp is not None:
        places[HUGEPAGES] = None
    if policy.ksm is not None:
        places[NO_SHARING] = None if policy.ksm else "<nosharepages />"
    return places | _kind(policy, was, hugepages=bool(places.get(HUGEPAGES, was[HUGEPAGES])))


def _kind(policy: VmPolicy, was: Mapping[str, str | None], *, hugepages: bool) -> dict[str, str | None]:
    """What must go for the memory to be of a kind that works: libvirt has defaults that do (docs/policy.md)."""
    source, access, allocation = (was[place] or "" for place in (SOURCE, ACCESS, ALLOCATION))
    places: dict[str, str | None] = {}
    if policy.hugetlb_kib is not None:
        if 'type="anonymous"' in source:  # libvirt refuses both beside hugepages
            places[SOURCE] = None
        if 'mode="ondemand"' in allocation:
            places[ALLOCATION] = None
    elif _transparent(policy) and not hugepages and 'mode="shared"' not in access:
        if source and 'type="anonymous"' not in source:
            places[SOURCE] = None
        if access:  # it makes a file of memory that is neither memfd nor hugetlb
            places[ACCESS] = None
    return places


def mode_of(policy: Policy) -> str | None:
    """The guest's mode of ABH, which its kernel can have from its start on by its command line."""
    return policy.guest.sysfs.get("/sys/kernel/mm/abh/enabled")


def _cmdline(was: str | None, mode: str) -> str | None:
    """The kernel's command line with that mode, at its end, as the last counts; what follows `--` is for init."""
    text = ((ElementTree.fromstring(was).text if was else "") or "").strip()
    kernel, *init = re.split(r"(?<!\S)--(?!\S)", text, maxsplit=1)
    found = re.findall(r"(?<!\S)abh=(\S*)", kernel)
    if found[-1:] == [mode] or (not found and mode == "never"):
        return was
    words = re.sub(r"(?<!\S)abh=\S*\s*", "", kernel).rstrip()
    element = ElementTree.Element("cmdline")
    element.text = " --".join([f"{words} abh={mode}".lstrip(), *init])
    return ElementTree.tostring(element, encoding="unicode")


def _transparent(policy: VmPolicy) -> list[str]:
    """The settings that need memory which can be in transparent hugepages."""
    settings = {"thp": policy.thp == "advised", "collapse": policy.collapse, "huge_share": policy.huge_share,
                "alignment_kib": policy.alignment_kib}  # fmt: skip
    return [name for name, asked in settings.items() if asked]


def kind_of_memory(tree: ElementTree.Element) -> str:
    """What libvirt makes the memory of: hugetlb, memfd, file, or anonymous."""
    source = tree.find("memoryBacking/source")
    kind = "" if source is None else source.get("type", "")
    if tree.find("memoryBacking/hugepages") is not None:
        return "hugetlb"
    if kind in ("memfd", "file"):
        return kind
    access = tree.find("memoryBacking/access") is not None or tree.find("cpu/numa/cell[@memAccess]") is not None
    return "file" if access else "anonymous"


def unfit(document: str, policy: VmPolicy, where: object) -> str | None:
    """Why the domain's memory cannot be as the policy says, though the policy is applied; None if it can."""
    kind = kind_of_memory(xml.parse(document, where))
    if kind not in ("memfd", "file") or not (settings := _transparent(policy)):
        return None
    return (
        f"{', '.join(settings)}: the guest's memory is a {kind}, by <access mode='shared'/> or a NUMA cell's memAccess,"
        " and has no transparent hugepages, unless it is a memfd and shmem_enabled of the host allows them;"
        " take a policy with hugetlb_kib, or let nobody else have this memory"
    )


def apply(
    document: str, policy: VmPolicy, hypervisor: str, before: str, where: object, mode: str | None = None
) -> Changed:
    """The XML as the policy wants it; places that an earlier policy wanted, and this one does not, are taken back."""
    tree = xml.verbatim(document, where)
    had = _read(before, where)
    now_or_was = {place: _at(tree, place) for place in PLACES}
    now_or_was |= {place: each["was"] for place, each in had.items() if each["is"] == now_or_was[place]}
    places = wanted(policy, hypervisor, now_or_was)
    if mode is not None and (tree.findtext("os/kernel") or "").strip():  # else the guest's own boot loader has it
        places[CMDLINE] = _cmdline(now_or_was[CMDLINE], mode)
    said = [*_take_back(tree, {place: each for place, each in had.items() if place not in places})]
    kept = {place: each for place, each in had.items() if place in places}
    for place, new in places.items():
        now = _at(tree, place)
        if now == new:
            continue
        _put(tree, place, new)
        # What another has put there since is what is to be put back, not what was there before him.
        ours = place in kept and kept[place]["is"] == now
        kept[place] = {"was": kept[place]["was"] if ours else now, "is": new}
        said.append(f"{place}: {_words(now)} -> {_words(new)}")
    return Changed(xml.text_of(tree) if said else document, json.dumps(kept) if kept else "", tuple(said))


def differences(one: str, other: str, where: object) -> tuple[str, ...]:
    """The places at which two documents of a domain are not the same."""
    trees = xml.parse(one, where), xml.parse(other, where)
    return tuple(place for place in PLACES if _at(trees[0], place) != _at(trees[1], place))


def undo(document: str, before: str, where: object) -> Changed:
    """The XML as it was before the policy."""
    tree = xml.verbatim(document, where)
    said = _take_back(tree, _read(before, where))
    return Changed(xml.text_of(tree) if said else document, "", said)


def _take_back(tree: ElementTree.Element, had: Mapping[str, Mapping[str, str | None]]) -> tuple[str, ...]:
    said = []
    for place, each in had.items():
        now = _at(tree, place)
        if now != each["is"]:
            said.append(f"{place}: left as it is, {_words(now)}: another has changed it")
        elif now != each["was"]:
            _put(tree, place, each["was"])
            said.append(f"{place}: {_words(now)} -> {_words(each['was'])}")
    return tuple(said)


def _read(before: str, where: object) -> dict[str, dict[str, str | None]]:
    """What was kept; it is ours, but anybody may have edited the domain."""
    try:
        had = json.loads(before or "{}")
        if not all(place in PLACES and set(each) == {"was", "is"} for place, each in had.items()):
            raise ValueError("unknown places")
        for place, each in had.items():
            for text in each.values():
                if text is not None and xml.parse(text, where).tag != place.rpartition("/")[2]:
                    raise ValueError(f"what is no {place}")
    except (ValueError, AttributeError, TypeError, RecursionError, AbhError) as error:
        raise AbhError(
            "what abh keeps in the domain's metadata is damaged",
            where=where,
            got=str(error).splitlines()[0],
            next_step="remove the element of urn:abh:libvirt-vm with `virsh edit`; then set the policy anew",
        ) from None
    return dict(had)


def _at(tree: ElementTree.Element, place: str) -> str | None:
    found = tree.find(place)
    if found is None:
        return None
    bare = ElementTree.fromstring(ElementTree.tostring(found))
    for each in bare.iter():
        each.text, each.tail = (each.text if place == CMDLINE else None), None
    return ElementTree.tostring(bare, encoding="unicode")


def _put(tree: ElementTree.Element, place: str, text: str | None) -> None:
    above, _, name = place.partition("/")
    parent = xml.child(tree, above, AFTER[above])
    at = len(parent)
    if (old := parent.find(name)) is not None:
        at = list(parent).index(old)
        parent.remove(old)
    if text is not None:
        parent.insert(at, ElementTree.fromstring(text))
    if len(parent) == 0:
        tree.remove(parent)


def _words(text: str | None) -> str:
    return text or "nothing"
