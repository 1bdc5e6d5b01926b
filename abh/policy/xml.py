# SPDX-License-Identifier: MIT
"""Domain XML as a tree and back, with what others have in it left as it is: namespaces by their prefixes, comments."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

from abh.errors import AbhError

NAMESPACE = "urn:abh:libvirt-vm"
PREFIX = "abh"
# What XML cannot hold, not even escaped.
FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
ElementTree.register_namespace(PREFIX, NAMESPACE)


def tag(name: str) -> str:
    """An element's name in our namespace."""
    return f"{{{NAMESPACE}}}{name}"


def parse(text: str, where: object) -> ElementTree.Element:
    """The tree of a document. One that declares a type, and so entities, is none of a domain."""
    if "<!DOCTYPE" in text:
        raise AbhError("a domain's XML declares a document type", where=where, next_step="remove <!DOCTYPE …>")
    try:
        for _, (prefix, uri) in ElementTree.iterparse(io.BytesIO(text.encode()), events=["start-ns"]):
            if prefix and not re.fullmatch(r"ns\d+", prefix):
                ElementTree.register_namespace(prefix, uri)
        parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
        return ElementTree.fromstring(text, parser)
    except (ElementTree.ParseError, UnicodeEncodeError, ValueError) as error:
        raise AbhError("not well-formed XML", where=where, got=error, next_step="correct it") from None


def text_of(element: ElementTree.Element) -> str:
    """The document of a tree."""
    return ElementTree.tostring(element, encoding="unicode").rstrip() + "\n"


def pretty(text: str, where: object) -> str:
    """The same document, indented alike whoever wrote it: to be compared by lines."""
    root = parse(text, where)
    ElementTree.indent(root)
    return text_of(root)


def child(parent: ElementTree.Element, name: str) -> ElementTree.Element:
    """The child of that name, made where it is missing."""
    found = parent.find(name)
    return ElementTree.SubElement(parent, name) if found is None else found
