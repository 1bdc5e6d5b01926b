# SPDX-License-Identifier: MIT
"""What libvirt shows only to those who may change a domain: passwords of displays, cookies of disks.

Metadata is shown to all who may look at a domain. So what is kept there of its XML has no secrets, nor digests of them,
of which short ones can be guessed; nor comments, which libvirt itself drops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from xml.etree import ElementTree

from abh.policy import xml

Place = tuple[str, str]  # the path of an element, and an attribute of it, or "" for its text
# Of libvirt's before a domain is defined; of one that is, libvirt itself tells (`hidden`).
KNOWN: frozenset[Place] = frozenset(
    {
        ("devices/graphics", "passwd"),
        ("devices/disk/source/cookies/cookie", ""),
        ("devices/disk/mirror/source/cookies/cookie", ""),
        ("devices/disk/backingStore/source/cookies/cookie", ""),
    }
)


def hidden(plain: ElementTree.Element, secure: ElementTree.Element) -> frozenset[Place]:
    """The places of which one document of a domain says less, or something else, than the other."""
    more = Counter(each[:3] for each in _values(secure)) - Counter(each[:3] for each in _values(plain))
    return frozenset((path, name) for path, name, _ in more)


def bare(text: str, places: Collection[Place], where: object) -> str:
    """The document without what is in those places, and without comments."""
    root = xml.verbatim(text, where, comments=False)
    for path, element in _elements(root):
        for name in [name for name in element.attrib if (path, name) in places]:
            del element.attrib[name]
        if (path, "") in places:
            element.text = None
    return xml.pretty(xml.text_of(root), where)


def values(tree: ElementTree.Element, places: Collection[Place]) -> list[tuple[str, str, str, str]]:
    """What is in those places, with the device it belongs to; libvirt has disks in an order of its own."""
    found = [each for each in _values(tree) if each[:2] in places]
    return sorted(((path, name, device, value) for path, name, value, device in found), key=lambda each: each[:3])


def _values(tree: ElementTree.Element) -> Iterator[tuple[str, str, str, str]]:
    """Path, attribute, value, and the target of the device; all but the metadata."""
    device = ""
    for path, element in _elements(tree):
        if path.count("/") < 2:
            device = " ".join(each.get("dev", "") for each in element.findall("target"))
        yield from ((path, name, value, device) for name, value in element.attrib.items())
        if text := (element.text or "").strip():
            yield path, "", text, device


def _elements(tree: ElementTree.Element, above: str = "") -> Iterator[tuple[str, ElementTree.Element]]:
    """All elements with their paths, but the metadata's."""
    if not above:
        yield "", tree
    for each in tree:
        if isinstance(each.tag, str) and (above or each.tag != "metadata"):
            path = f"{above}/{each.tag}" if above else each.tag
            yield path, each
            yield from _elements(each, path)
