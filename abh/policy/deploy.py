# SPDX-License-Identifier: MIT
"""Defines a domain from its XML: the same again changes nothing, and a domain of somebody else's is left alone."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from abh.errors import AbhError
from abh.policy import apply, binding, carried, change, claim, domain, secret, stored, suited, xml
from abh.policy.deployed import Deployed, digest
from abh.policy.domain import Domain, Kept
from abh.schema.policy import Policy


@dataclass(frozen=True)
class Plan:
    """What is to be defined, and how that differs from what is."""

    name: str
    source: str
    difference: tuple[str, ...] = ()  # from the last deployment's XML and policy
    notes: tuple[str, ...] = ()  # what makes it somebody else's
    remarks: tuple[str, ...] = ()  # what else is to be known
    document: str = ""  # for libvirt; "" where nothing is to be done
    kept: Kept = field(default_factory=Kept)  # what is in it for abh
    old: Domain | None = None
    seen: str = ""  # its XML, with its secrets
    lost: tuple[str, ...] = ()  # the difference from the domain as it is, where that is not what abh has defined
    said: tuple[str, ...] = ()  # what the policy changes in the XML


def name_of(text: str) -> str:
    """The name of the domain in a document."""
    return xml.parse(text, "the domain").findtext("name") or ""


def existing(connection: Any, name: str) -> Domain | None:
    """The domain of that name, if there is one."""
    return next((each for each in domain.every(connection) if each.name == name), None)


def plan(text: str, policy: Policy | None, old: Domain | None, *, secrets: bool = True) -> Plan:
    """What would be done to a domain, or to none; without looking at secrets if the connection may not read them."""
    name = name_of(text)
    if policy:
        suited.check(policy, _hypervisor(text))
        suited.check_shadow(policy, text, _hypervisor(text), "", name)
    kept, seen = (old.kept(), old.document(secrets=secrets)) if old else (Kept(), "")
    last = Deployed.of(kept)
    new = Kept.of(policy) if policy else Kept(kept.name, kept.policy, kept.required)
    notes, remarks = [], suited.not_applied(policy) if policy else []
    if old is not None:
        notes = list(_notes(old, kept, last))
        remarks += [why] if (why := apply.earlier(old)) else []
        told = secret.values(xml.parse(text, name), last.places)
        if not secrets and (told or last.hidden):
            remarks.append("its secrets were not looked at, as nothing is changed")
        elif secrets and last.source and told != secret.values(xml.parse(seen, name), last.places):
            notes.append(
                "its secrets are not those of the XML: nothing is kept of them that shows who has changed them"
            )
    difference = [] if old and not last.source else _diff(last.source, secret.bare(text, last.places, name), name)
    difference += _diff(kept.policy, new.policy, f"{name}: policy")
    made = Plan(name, text, tuple(difference), tuple(notes), tuple(remarks), old=old, seen=seen)
    if old is not None and not difference and not notes:
        return made
    asked = policy or (stored.policy_of(new.policy, new.name, name) if new.name else None)
    if asked and not policy:  # the domain's own, with another XML
        suited.check_shadow(asked, text, _hypervisor(text), "", name)
    document, after, said = _document(made, new, last, asked)
    lost: tuple[str, ...] = ()
    if old is not None and last.defined != digest(old.document()):
        lost = _lost(old, document, last.places)
    if asked and _hypervisor(document) == "kvm" and (why := change.unfit(document, asked.vm, name)):
        remarks.append(why)
    return replace(made, document=document, kept=after, remarks=tuple(remarks), lost=lost, said=said)


def _notes(old: Domain, kept: Kept, last: Deployed) -> Iterator[str]:
    if not last.source:
        yield "it was not defined by `abh deploy`"
    elif not last.defined:
        yield "an earlier `abh deploy` of it has not come to its end"
    elif last.defined != digest(old.document()):
        yield "another has changed its definition since `abh deploy`"
    if not old.persistent:
        yield "it is transient: it would become persistent"


def _without_metadata(document: str, where: object) -> str:
    """What others have there is carried over."""
    tree = xml.verbatim(document, where)
    if (metadata := tree.find("metadata")) is not None:
        tree.remove(metadata)
    return xml.text_of(tree)


def _hypervisor(document: str) -> str:
    return "xen" if xml.parse(document, "the domain").get("type") == "xen" else "kvm"


def _document(made: Plan, new: Kept, last: Deployed, policy: Policy | None) -> tuple[str, Kept, tuple[str, ...]]:
    """The XML for libvirt, of the source, the policy, what is carried over, and ours; and what the policy changes."""
    document = made.source
    said: tuple[str, ...] = ()
    if policy is not None:
        mode = change.mode_of(policy)
        changed = change.apply(document, policy.vm, _hypervisor(document), "", made.name, mode)
        document, new, said = changed.document, replace(new, before=changed.before), changed.said
    tree = xml.verbatim(document, made.name)
    if made.old is not None:
        carried.carry(tree, xml.verbatim(made.seen, made.name), last.source)
    deployed = Deployed(secret.bare(made.source, last.places, made.name), last.hidden)
    kept = replace(new, deployed=deployed.text())
    xml.put_ours(tree, domain.element_of(kept), made.name)
    return xml.text_of(tree), kept, said


@contextlib.contextmanager
def claimed(connection: Any, name: str) -> Iterator[Domain | None]:
    """The domain of that name, claimed, or None where there is none."""
    old = existing(connection, name)
    if old is None:
        yield None
        return
    with claim.claim(old):
        yield old


def execute(connection: Any, made: Plan) -> None:
    """Defines it, and notes how libvirt has put it down: that shows later changes by others."""
    if made.old is not None:
        made.old.redefine(made.seen, made.document)
        _note(made.old, made)
        return
    one = _define_new(connection, made)
    with claim.claim(one):
        _note(one, made)


def _note(one: Domain, made: Plan) -> None:
    if one.kept() != made.kept:
        raise one.changed()
    plain, secure = (xml.parse(one.document(secrets=each), one.where) for each in (False, True))
    hidden = secret.hidden(plain, secure)
    source = secret.bare(made.source, secret.KNOWN | hidden, one.where)
    deployed = Deployed(source, hidden, digest(one.document()))
    one.keep(replace(made.kept, deployed=deployed.text()))


def _define_new(connection: Any, made: Plan) -> Domain:
    """A domain that is not there yet. Of two who define it at once, libvirt refuses one: it would have another UUID."""
    where = f"domain {made.name!r} of {connection.getURI()}"
    libvirt = binding.load()
    if existing(connection, made.name):
        raise AbhError("another has defined this domain meanwhile", where=where, next_step="look at it with --dry-run")
    with binding.errors(where, "correct the XML, or, if there is such a domain by now, look at it with --dry-run"):
        return Domain(connection, connection.defineXMLFlags(made.document, libvirt.VIR_DOMAIN_DEFINE_VALIDATE))


def _lost(old: Domain, document: str, places: frozenset[secret.Place]) -> tuple[str, ...]:
    """The difference to the domain as it is: the last deployment's XML does not show what others have changed since."""
    now, then = (
        secret.bare(_without_metadata(each, old.where), places, old.where) for each in (old.document(), document)
    )
    return tuple(_diff(now, then, old.name, "it is"))


def _diff(old: str, new: str, name: str, was: str = "last deployed") -> list[str]:
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), f"{name}, as {was}", f"{name}, as it would be", lineterm="", n=2
    )
    return list(lines)
