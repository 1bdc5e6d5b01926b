# SPDX-License-Identifier: MIT
"""What a domain that is deployed anew keeps, though the XML of which it is deployed does not say it.

libvirt has chosen its UUID and the addresses of its network cards, by which others know it; other programs keep what is
theirs in its metadata.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from xml.etree import ElementTree

from abh.policy import xml

CARDS = "devices/interface"


def carry(new: ElementTree.Element, old: ElementTree.Element, last: str) -> None:
    """Takes it over from the domain as it is; `last` is the XML of which it was deployed before. Trees are verbatim."""
    for name in ("uuid", "genid"):
        found, mine = old.find(name), new.find(name)
        given = mine is not None and (mine.text or "").strip()
        if found is not None and not given and (name == "uuid" or mine is not None):
            xml.child(new, name, "name").text = found.text
    _metadata(new, old, last)
    _addresses(new, old, last)


def _metadata(new: ElementTree.Element, old: ElementTree.Element, last: str) -> None:
    """Elements of others, but those that came of the XML itself, now or before."""
    theirs = old.find("metadata")
    if theirs is None:
        return
    own = _names(new) | (_names(xml.verbatim(last, "the last deployment")) if last else set())
    for each in theirs:
        if isinstance(each.tag, str) and xml.resolved(each, theirs, old) not in own | {xml.tag("vm")}:
            for key in _declarations(each):
                if (uri := theirs.get(key) or old.get(key)) and key not in each.attrib:
                    each.set(key, uri)
            xml.child(new, "metadata", "name").append(each)


def _declarations(element: ElementTree.Element) -> set[str]:
    """The attributes that declare the namespaces of an element, and of what is in it."""
    words = [word for each in element.iter() if isinstance(each.tag, str) for word in (each.tag, *each.attrib)]
    return {f"xmlns:{word.partition(':')[0]}" if ":" in word else "xmlns" for word in words}


def _names(tree: ElementTree.Element) -> set[str]:
    metadata = tree.find("metadata")
    return {
        xml.resolved(each, metadata, tree)
        for each in (() if metadata is None else metadata)
        if isinstance(each.tag, str)
    }


def _addresses(new: ElementTree.Element, old: ElementTree.Element, last: str) -> None:
    """Of each card that the XML gives no address: that of the old one that is most like it, the surest first."""
    said = {_address(card) for card in new.findall(CARDS)}
    then = xml.verbatim(last, "the last deployment").findall(CARDS) if last else []
    cards = old.findall(CARDS)
    # libvirt keeps their order, and adds what a card does not say, as its model.
    made_of = [_likeness(card) for card in then] if len(then) == len(cards) else [None] * len(cards)
    left = [each for each in zip(cards, made_of, strict=True) if _address(each[0]) not in said]
    without = [card for card in new.findall(CARDS) if _address(card) is None]
    for alike in ALIKE:
        for card in list(without):
            mine = _likeness(card)
            found = next((each for each in left if alike(mine, _likeness(each[0]), each[1])), None)
            if found is not None and (address := _address(found[0])):
                xml.child(card, "mac").set("address", address)
                left.remove(found)
                without.remove(card)


def _address(card: ElementTree.Element) -> str | None:
    mac = card.find("mac")
    return None if mac is None else (mac.get("address") or "").lower() or None


@dataclass(frozen=True)
class Likeness:
    """What tells a card from another, but its address."""

    network: object
    model: str | None
    target: str | None


ALIKE: tuple[Callable[[Likeness, Likeness, Likeness | None], bool], ...] = (
    lambda mine, _, made_of: mine == made_of,  # the XML has it as the last had
    lambda mine, theirs, _: mine == theirs,
    lambda mine, theirs, _: mine.target is not None and (mine.target, mine.model) == (theirs.target, theirs.model),
    lambda mine, theirs, _: (mine.network, mine.model) == (theirs.network, theirs.model),
    lambda mine, theirs, _: mine.network == theirs.network,
    lambda *_: True,
)


def _likeness(card: ElementTree.Element) -> Likeness:
    source, model, target = (card.find(name) for name in ("source", "model", "target"))
    network = card.get("type"), sorted((source.attrib if source is not None else {}).items())
    return Likeness(
        network, None if model is None else model.get("type"), None if target is None else target.get("dev")
    )
