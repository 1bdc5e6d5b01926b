# SPDX-License-Identifier: MIT
"""One abh at a time changes a domain, wherever each of them runs.

libvirt cannot compare and set, and a lock in a file would be this machine's own. Its metadata, though, is changed one
element at a time: each claims the domain by an element under a name of its own, then looks whether another has. Of two,
at least one sees the other and gives way. Who ends without taking his claim back is waited for, for STALE_S.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import secrets
import socket
import sys
import time
from collections.abc import Iterator
from xml.etree import ElementTree

from abh.errors import AbhError
from abh.policy import guest, xml
from abh.policy.domain import Domain

NAMESPACE = f"{xml.NAMESPACE}:claim:"
PREFIX = "abh-claim"
PATIENCE_S = 60
STALE_S = 20  # a change takes a few calls of libvirt's; arbitrary
TELL_S = 1
PAUSE_S = (0.05, 0.4)  # of two that gave way, one is to be first


@contextlib.contextmanager
def claim(domain: Domain) -> Iterator[None]:
    """The domain is changed by nobody else meanwhile who claims it, too."""
    token = _take(domain)
    domain.claimed = NAMESPACE + token
    try:
        yield
    finally:
        domain.claimed = None
        with contextlib.suppress(AbhError):  # the domain may have gone, or the connection: the claim will be stale
            drop(domain, token)


def element(token: str) -> ElementTree.Element:
    """A claim in a document that is to be defined."""
    by = f"{socket.gethostname()}, process {os.getpid()}"
    return ElementTree.Element(
        f"{PREFIX}:claim", {f"xmlns:{PREFIX}": NAMESPACE + token, "by": xml.FORBIDDEN.sub("?", by)}
    )


def claims(tree: ElementTree.Element) -> dict[str, str]:
    """The claims in a domain, by token, with who has made them."""
    found = {}
    for each in tree.findall("metadata/*"):
        if isinstance(each.tag, str) and (match := re.fullmatch(rf"{{{NAMESPACE}([0-9a-f]{{16}})}}claim", each.tag)):
            found[match[1]] = each.get("by") or "somebody"
    return found


def drop(domain: Domain, token: str) -> None:
    """Takes a claim back, from what has been started meanwhile, too."""
    if domain.persistent:
        domain.put_metadata(None, PREFIX, NAMESPACE + token, live=False)
    if domain.running:  # it may have been started with the claim in it
        domain.put_metadata(None, PREFIX, NAMESPACE + token, live=True)


def _take(domain: Domain) -> str:
    token = secrets.token_hex(8)
    begin = time.monotonic()
    since: dict[str, float] = {}
    told = False
    while True:
        others = claims(domain.tree())
        since = {each: since.get(each, time.monotonic()) for each in others}
        for each, seen in since.items():
            if time.monotonic() > seen + STALE_S:
                drop(domain, each)
        if not others:
            bare = ElementTree.Element("claim", {"by": element(token).attrib["by"]})
            domain.put_metadata(xml.text_of(bare), PREFIX, NAMESPACE + token, live=not domain.persistent)
            if set(claims(domain.tree())) == {token}:
                return token
            drop(domain, token)
        elif not told and time.monotonic() > begin + TELL_S:
            told = True
            print(f"abh: waiting for {guest.plain(', '.join(others.values()))}", file=sys.stderr)
        if time.monotonic() > begin + PATIENCE_S:
            raise AbhError(
                "another abh is changing this domain",
                where=domain.where,
                got=guest.plain(", ".join(others.values())) or "several at once",
                next_step="run the same command again when it is done",
            )
        time.sleep(random.uniform(*PAUSE_S))
