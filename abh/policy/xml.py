# SPDX-License-Identifier: MIT
"""Domain XML as a tree and back, with what others have in it left as it is: namespaces by their prefixes, comments."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.parsers import expat

from abh.errors import AbhError

NAMESPACE = "urn:abh:libvirt-vm"
PREFIX = "abh"
DEPTH = 256  # the same as libvirt's own parser's
# What XML cannot hold, not even escaped.
FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def tag(name: str) -> str:
    """An element's name in our namespace."""
    return f"{{{NAMESPACE}}}{name}"


class _DocumentType(Exception):
    """A document declares its type."""


class _Builder(ElementTree.TreeBuilder):
    """Of a tree with its comments and processing instructions."""

    def __init__(self) -> None:
        super().__init__(insert_comments=True, insert_pis=True)
        self.depth = 0

    def start(self, tag: str, attrs: dict[str, str], /) -> ElementTree.Element:
        """An element begins; what writes a tree goes down into it by calls of Python's, of which there is an end."""
        self.depth += 1
        if self.depth > DEPTH:
            raise ValueError(f"elements within elements, deeper than {DEPTH}")
        return super().start(tag, attrs)

    def end(self, tag: str, /) -> ElementTree.Element:
        """It ends."""
        self.depth -= 1
        return super().end(tag)

    def doctype(self, *_: object) -> None:
        """Comes before any entity that the document declares could be used."""
        raise _DocumentType


@contextlib.contextmanager
def _errors(where: object) -> Iterator[None]:
    try:
        yield
    except _DocumentType:
        raise AbhError(
            "a domain's XML declares a document type", where=where, next_step="remove <!DOCTYPE …>"
        ) from None
    except (ElementTree.ParseError, expat.ExpatError, ValueError, LookupError) as error:
        raise AbhError("not well-formed XML", where=where, got=error, next_step="correct it") from None


def parse(text: str | bytes, where: object) -> ElementTree.Element:
    """The tree of a document, to look at. One that declares a document type, and so entities, is none of a domain."""
    with _errors(where):
        return ElementTree.fromstring(text, ElementTree.XMLParser(target=_Builder()))


def verbatim(text: str | bytes, where: object, *, comments: bool = True) -> ElementTree.Element:
    """The tree of a document to be written again: names with their prefixes, namespaces where they were declared.

    ElementTree's own would declare all of them at the root, some under prefixes of its own, and libvirt keeps it so.
    Bytes are read in the encoding that they declare.
    """
    parse(text, where)  # a prefix that is declared nowhere is an error, which is not noticed below
    builder = _Builder()
    parser = expat.ParserCreate("utf-8" if isinstance(text, str) else None)
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    if comments:
        parser.CommentHandler = builder.comment
    parser.ProcessingInstructionHandler = builder.pi
    parser.StartDoctypeDeclHandler = builder.doctype
    with _errors(where):
        parser.Parse(text.encode() if isinstance(text, str) else text, True)
        return builder.close()


def resolved(element: ElementTree.Element, *above: ElementTree.Element | None) -> str:
    """The name of an element of a `verbatim` tree, in its namespace; those above it, the nearest first."""
    prefix, _, name = element.tag.rpartition(":")
    key = f"xmlns:{prefix}" if prefix else "xmlns"
    uri = next((each.get(key) for each in (element, *above) if each is not None and each.get(key)), None)
    return f"{{{uri}}}{name}" if uri else name


def put_ours(tree: ElementTree.Element, ours: ElementTree.Element | None, where: object) -> None:
    """Replaces our element in the metadata of a `verbatim` tree, or, by None, removes it."""
    metadata = tree.find("metadata")
    if metadata is not None:
        for each in list(metadata):
            if isinstance(each.tag, str) and resolved(each, metadata, tree) == tag("vm"):
                metadata.remove(each)
    if ours is not None:
        new = verbatim(text_of(ours), where)
        for each in new.iter():
            each.tag = f"{PREFIX}:{each.tag}"
        new.set(f"xmlns:{PREFIX}", NAMESPACE)
        child(tree, "metadata", "name").append(new)
    elif metadata is not None and len(metadata) == 0:
        tree.remove(metadata)


def text_of(element: ElementTree.Element) -> str:
    """The document of a tree."""
    text = ElementTree.tostring(element, encoding="unicode").rstrip()
    return text.replace("\r", "&#13;") + "\n"  # which is escaped in attributes only; as it is, it is read as a new line


def pretty(text: str, where: object) -> str:
    """The same document, indented alike whoever wrote it: to be compared by lines."""
    root = verbatim(text, where)
    ElementTree.indent(root)
    return text_of(root)


def child(parent: ElementTree.Element, name: str, after: str = "") -> ElementTree.Element:
    """The child of that name; where it is missing, it is made after another, or else as the last.

    The schemas of libvirt allow any order, but what judges by them does not for all that is far from where it belongs.
    """
    found = parent.find(name)
    if found is None:
        found = ElementTree.Element(name)
        before = parent.find(after) if after else None
        parent.insert(len(parent) if before is None else list(parent).index(before) + 1, found)
    return found
