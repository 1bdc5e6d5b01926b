# SPDX-License-Identifier: MIT
"""Domain XML as a tree and back, with what others have in it left as it is: namespaces by their prefixes, comments."""

from __future__ import annotations

import re
import threading
from xml.etree import ElementTree
from xml.parsers import expat

from abh.errors import AbhError

NAMESPACE = "urn:abh:libvirt-vm"
PREFIX = "abh"
# What XML cannot hold, not even escaped.
FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
ElementTree.register_namespace(PREFIX, NAMESPACE)
_REGISTER = threading.Lock()  # the prefixes are the process's, and domains are looked at side by side


def tag(name: str) -> str:
    """An element's name in our namespace."""
    return f"{{{NAMESPACE}}}{name}"


def parse(text: str, where: object) -> ElementTree.Element:
    """The tree of a document. One that declares a type, and so entities, is none of a domain."""
    try:
        prefixes = _prefixes(text, where)
        with _REGISTER:
            for prefix, uri in prefixes:
                if not re.fullmatch(r"ns\d+", prefix):
                    ElementTree.register_namespace(prefix, uri)
        parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
        return ElementTree.fromstring(text, parser)
    except (ElementTree.ParseError, expat.ExpatError, UnicodeEncodeError, ValueError) as error:
        raise AbhError("not well-formed XML", where=where, got=error, next_step="correct it") from None


def _prefixes(text: str, where: object) -> list[tuple[str, str]]:
    """The namespaces with a prefix. The parser says what declares a type: a comment or a text may have the word."""
    found: list[tuple[str, str]] = []

    def declared(*_words: object) -> None:
        raise AbhError("a domain's XML declares a document type", where=where, next_step="remove <!DOCTYPE …>")

    def named(prefix: str | None, uri: str | None) -> None:
        if prefix and uri:
            found.append((prefix, uri))

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartDoctypeDeclHandler = declared
    parser.StartNamespaceDeclHandler = named
    parser.Parse(text, True)
    return found


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
