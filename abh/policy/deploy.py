# SPDX-License-Identifier: MIT
"""Defines a domain from its XML: the same again changes nothing, and a domain of somebody else's is left alone."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from abh.policy import binding, change, domain, xml
from abh.policy.domain import Domain, Kept
from abh.schema.policy import Policy


@dataclass(frozen=True)
class Plan:
    """What is to be defined, and how that differs from what is."""

    name: str
    document: str  # for libvirt; "" where nothing is to be done
    difference: tuple[str, ...]
    notes: tuple[str, ...]  # what makes it somebody else's


def existing(connection: Any, name: str) -> Domain | None:
    """The domain of that name, if there is one."""
    return next((each for each in domain.every(connection) if each.name == name), None)


def plan(connection: Any, text: str, policy: Policy | None) -> Plan:
    """What would be done."""
    tree = xml.parse(text, "the domain")
    name = (tree.findtext("name") or "").strip()
    old = existing(connection, name)
    kept = old.kept() if old else Kept()
    last, defined = _last(kept)
    new = Kept.of(policy) if policy else Kept(kept.name, kept.policy, kept.required)
    notes = []
    if old is not None and not last:
        notes.append("it was not defined by `abh deploy`")
    elif old is not None and defined != digest(old.document(), old.where):
        notes.append("another has changed its definition since `abh deploy`")
    if old is not None and not old.persistent:
        notes.append("it is transient: it would become persistent")
    before = last or (xml.pretty(old.document(), old.where) if old else "")
    difference = _diff(before, text, name) + _diff(kept.policy, new.policy, f"{name}: policy")
    if old is not None and not difference and not notes:
        return Plan(name, "", (), ())
    return Plan(name, _document(tree, text, old, new, policy), tuple(difference), tuple(notes))


def _document(tree: ElementTree.Element, text: str, old: Domain | None, new: Kept, policy: Policy | None) -> str:
    """The XML for libvirt: the source, with what the policy changes, and both in the metadata."""
    if policy is None and new.name:
        from abh.policy import stored

        policy = stored.policy_of(new.policy, new.name, tree.findtext("name") or "")
    made = text
    before = ""
    if policy is not None:
        hypervisor = "xen" if tree.get("type") == "xen" else "kvm"
        changed = change.apply(text, policy.vm, hypervisor, "", "the domain")
        made, before = changed.document, changed.before
    whole = xml.verbatim(made, "the domain")
    if old is not None:
        xml.child(whole, "uuid").text = old.uuid
    deployed = json.dumps({"source": text, "defined": ""})
    ours = domain.element_of(Kept(new.name, new.policy, new.required, before, deployed))
    xml.put_ours(whole, ours, "the domain")
    return xml.text_of(whole)


def execute(connection: Any, made: Plan) -> Domain:
    """Defines it, and notes how libvirt has put it down: that shows later changes by others."""
    libvirt = binding.load()
    where = f"domain {made.name!r} of {connection.getURI()}"
    with binding.errors(where, "correct the XML"):
        handle = connection.defineXMLFlags(made.document, libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
    one = Domain(connection, handle)
    kept = one.kept()
    text, _ = _last(kept)
    deployed = json.dumps({"source": text, "defined": digest(one.document(), where)})
    one.keep(Kept(kept.name, kept.policy, kept.required, kept.before, deployed))
    return one


def _last(kept: Kept) -> tuple[str, str]:
    """The source of the last deployment, and the digest of what libvirt made of it; empty where there was none."""
    try:
        last = json.loads(kept.deployed or "{}")
        return str(last.get("source", "")), str(last.get("defined", ""))
    except (ValueError, AttributeError, RecursionError):
        return "", ""


def digest(document: str, where: object) -> str:
    """Names a definition, but for what `abh policy` itself changes in it."""
    tree = xml.parse(document, where)
    for place in ("metadata", *change.PLACES):
        above, _, name = place.rpartition("/")
        parent = tree.find(above) if above else tree
        found = None if parent is None else parent.find(name)
        if parent is not None and found is not None:
            parent.remove(found)
            if above and len(parent) == 0:
                tree.remove(parent)
    ElementTree.indent(tree)
    return hashlib.sha256(re.sub(r"\s+", " ", xml.text_of(tree)).encode()).hexdigest()


def _diff(old: str, new: str, name: str) -> list[str]:
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), f"{name}, as it is", f"{name}, as it would be", lineterm="", n=2
    )
    return list(lines)
