# SPDX-License-Identifier: MIT
"""What is kept in a domain of its last deployment, by which the next sees what is new, and who else has changed it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace

from abh.errors import AbhError
from abh.policy import secret, xml
from abh.policy.domain import Kept


@dataclass(frozen=True)
class Deployed:
    """What is kept of the last deployment, for all to see who may look at the domain."""

    source: str = ""  # its XML, but for secrets; "" where there was none
    hidden: frozenset[secret.Place] = frozenset()  # where it had secrets
    defined: str = ""  # names the definition that libvirt made of it; "" until that is known

    @classmethod
    def of(cls, kept: Kept) -> Deployed:
        """That of a domain; nothing where it was not deployed, or where somebody has written what cannot be read."""
        try:
            last = json.loads(kept.deployed or "{}")
            hidden = frozenset((str(path), str(name)) for path, name in last.get("hidden", []))
            source = str(last.get("source", ""))
            if source:
                xml.parse(source, "the last deployment")
            return cls(source, hidden, str(last.get("defined", "")))
        except (ValueError, AttributeError, TypeError, RecursionError, AbhError):
            return cls()

    @property
    def places(self) -> frozenset[secret.Place]:
        """Where secrets may be."""
        return secret.KNOWN | self.hidden

    def text(self) -> str:
        """As it is kept."""
        return json.dumps({"source": self.source, "hidden": sorted(self.hidden), "defined": self.defined})

    def changed_by_abh(self, was: str, now: str) -> Deployed:
        """After a change of the definition that is abh's own; what another has changed before stays seen."""
        return replace(self, defined=digest(now)) if self.defined and self.defined == digest(was) else self


def digest(document: str) -> str:
    """Names a definition, as libvirt shows it to all, but for its metadata."""
    tree = xml.verbatim(document, "the domain")
    if (metadata := tree.find("metadata")) is not None:
        tree.remove(metadata)
    return hashlib.sha256(xml.pretty(xml.text_of(tree), "the domain").encode()).hexdigest()
