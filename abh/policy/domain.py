# SPDX-License-Identifier: MIT
"""A domain of libvirt, and what abh keeps in its metadata: its policy first of all."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from abh.errors import AbhError
from abh.policy import binding, stored, xml
from abh.schema.policy import Policy

NEXT_STEP = "see libvirt's own log"
VERSION = 1  # of what is kept; raised when an older abh would misread it


@dataclass(frozen=True)
class Kept:
    """What abh keeps in a domain's metadata, all as text."""

    name: str = ""  # of the policy; "" for none
    policy: str = ""
    required: tuple[str, ...] = ()
    before: str = ""  # what `apply` found where it changed the domain (abh.policy.change)
    deployed: str = ""  # the XML of which `deploy` defined it

    @classmethod
    def of(cls, policy: Policy, **others: str) -> Kept:
        """What is kept of a policy."""
        return cls(policy.name, stored.text_of(policy), policy.vm.required, **others)


def element_of(kept: Kept) -> ElementTree.Element | None:
    """The element of the metadata, which is not in its namespace yet; None if nothing is kept."""
    if kept == Kept():
        return None
    element = ElementTree.Element("vm", {"version": str(VERSION)})
    if kept.name:
        element.set("policy", kept.name)
    if kept.required:
        element.set("required", " ".join(kept.required))
    for name in ("policy", "before", "deployed"):
        if text := getattr(kept, name):
            if xml.FORBIDDEN.search(text):
                raise AbhError("a text that XML cannot hold", where=name, got=repr(text[:80]), next_step="correct it")
            ElementTree.SubElement(element, name).text = text
    return element


def kept_of(element: ElementTree.Element | None, where: str) -> Kept:
    """What an element of the metadata holds; nothing where there is none."""
    if element is None:
        return Kept()
    version = element.get("version", "")
    if not re.fullmatch(r"[1-9][0-9]{0,8}", version) or int(version) > VERSION:
        raise AbhError(
            "the domain's policy is of another version of abh",
            where=where,
            got=f"version {version!r}",
            expected=f"at most {VERSION}",
            next_step="use the abh that wrote it, or `abh policy set` the policy anew with --replace",
        )
    texts = {name: element.findtext(xml.tag(name)) or "" for name in ("policy", "before", "deployed")}
    required = tuple((element.get("required") or "").split())
    return Kept(element.get("policy") or "", required=required, **texts)


class Domain:
    """A domain of a connection."""

    def __init__(self, connection: Any, handle: Any) -> None:
        self.connection = connection
        self.handle = handle
        self.libvirt = binding.load()
        self.name = str(handle.name())
        self.uuid = str(handle.UUIDString())
        self.where = f"domain {self.name!r} of {connection.getURI()}"
        self.claimed: str | None = None  # the namespace of our claim (abh.policy.claim), while there is one

    def errors(self, next_step: str = NEXT_STEP) -> Any:
        """libvirt's errors within, as ours."""
        return binding.errors(self.where, next_step)

    @property
    def running(self) -> bool:
        """Whether it has a process, or a domain of Xen's; it may be paused."""
        with self.errors():
            return bool(self.handle.isActive())

    @property
    def persistent(self) -> bool:
        """Whether it stays defined when it does not run."""
        with self.errors():
            return bool(self.handle.isPersistent())

    @property
    def saved(self) -> bool:
        """Whether its next start goes on from a managed save: as it ran then, whatever is defined by now."""
        try:
            return bool(self.handle.hasManagedSaveImage(0))
        except self.libvirt.libvirtError as error:
            if error.get_error_code() == self.libvirt.VIR_ERR_NO_SUPPORT:
                return False
            with self.errors():
                raise

    def saved_document(self) -> str | None:
        """The XML of its managed save; None where this driver of libvirt's cannot tell it (QEMU's alone can)."""
        try:
            return str(self.handle.managedSaveGetXMLDesc(0))
        except self.libvirt.libvirtError:
            return None

    def document(self, *, live: bool = False, secrets: bool = False) -> str:
        """Its XML: of the next start, or, live and of a transient domain, as it runs.

        Without its secrets (passwords of displays, cookies of disks) it must not be defined again: they would be lost.
        """
        flags = 0 if live or not self.persistent else self.libvirt.VIR_DOMAIN_XML_INACTIVE
        flags |= self.libvirt.VIR_DOMAIN_XML_SECURE if secrets else 0
        with self.errors("use a connection that may read this domain's secrets" if secrets else NEXT_STEP):
            return str(self.handle.XMLDesc(flags))

    def tree(self, *, live: bool = False) -> ElementTree.Element:
        """Its XML as a tree."""
        return xml.parse(self.document(live=live), self.where)

    def kept(self, *, live: bool = False) -> Kept:
        """What abh keeps in it."""
        return self.kept_in(self.document(live=live))

    def kept_in(self, document: str) -> Kept:
        """What abh keeps in a document of this domain."""
        return kept_of(xml.parse(document, self.where).find(f"metadata/{xml.tag('vm')}"), self.where)

    def policy(self, *, live: bool = False) -> Policy | None:
        """The policy it has; live: the one that it was started with or has been given since."""
        kept = self.kept(live=live)
        return stored.policy_of(kept.policy, kept.name, self.name) if kept.name else None

    def keep(self, kept: Kept) -> None:
        """Stores it, for the next start and, if it runs, in the running one; what is empty is removed."""
        element = element_of(kept)
        if self.claimed and self.claimed not in self.document():
            raise self.changed()
        text = None if element is None else xml.text_of(element)
        self.put_metadata(text, xml.PREFIX, xml.NAMESPACE, live=self.running)

    def put_metadata(self, text: str | None, prefix: str, namespace: str, *, live: bool) -> None:
        """An element of the metadata; None removes it."""
        flags = self.libvirt.VIR_DOMAIN_AFFECT_CONFIG if self.persistent else 0
        flags |= self.libvirt.VIR_DOMAIN_AFFECT_LIVE if live else 0
        kind = self.libvirt.VIR_DOMAIN_METADATA_ELEMENT
        with self.errors("may you change this domain?"):
            self.handle.setMetadata(kind, text, prefix, namespace, flags)

    def redefine(self, seen: str, new: str) -> None:
        """Defines it anew, unless another has changed it since its XML was `seen`, with its secrets."""
        if self.document(secrets=True) != seen or (self.claimed and self.claimed not in seen):
            raise self.changed()
        with self.errors("its XML is not valid for this libvirt"):
            self.handle = self.connection.defineXMLFlags(new, self.libvirt.VIR_DOMAIN_DEFINE_VALIDATE)

    def changed(self) -> AbhError:
        """What is said where another was faster."""
        return AbhError(
            "another has changed the domain meanwhile", where=self.where, next_step="run the same command again"
        )


def find(connection: Any, name: str) -> Domain:
    """The domain of that UUID, or of that name."""
    where, next_step = f"domain {name!r} of {connection.getURI()}", "`abh policy list` shows the domains"
    if re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", name):
        with contextlib.suppress(binding.NoDomain), binding.errors(where, next_step):
            return Domain(connection, connection.lookupByUUIDString(name))
    with binding.errors(where, next_step):
        return Domain(connection, connection.lookupByName(name))


def every(connection: Any) -> Iterator[Domain]:
    """All domains, by name."""
    with binding.errors(connection.getURI(), "may you use this connection?"):
        handles = connection.listAllDomains()
    for handle in sorted(handles, key=lambda each: str(each.name())):
        yield Domain(connection, handle)
