# SPDX-License-Identifier: MIT
"""The XML that a domain is deployed from: its ${variables} filled in, and judged by libvirt's own schemas."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from abh import paths
from abh.errors import AbhError, Status
from abh.policy import binding, xml

FOLDER = paths.VM_CONFIGS / "libvirt"
# $${ stands for ${. A $ before anything else is a $: passwords and kernel command lines have them.
VARIABLE = re.compile(r"\$\$\{|\$\{([a-z_][a-z0-9_]*)\}|\$\{[^}]*\}?")


def templates() -> dict[str, Path]:
    """The domains of the checkout, by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.xml"))}


def source(word: str, values: Mapping[str, str], name: str | None) -> str:
    """The XML of a file, or of a domain of the checkout, with its ${variables} filled in."""
    path = templates().get(word, Path(word))
    if not path.is_file():
        raise AbhError(
            "no such file, and no such domain in the checkout",
            where=FOLDER,
            got=word,
            expected="a file, or one of " + ", ".join(templates()),
            next_step="correct the word",
            status=Status.USAGE,
        )
    try:
        tree = xml.verbatim(path.read_bytes(), path)
    except OSError as error:
        raise AbhError("the file cannot be read", where=path, got=error.strerror, next_step="correct it") from None
    _fill(tree, values, path)
    xml.put_ours(tree, None, path)  # of the domain that this is a copy of
    if name is not None:
        xml.child(tree, "name").text = name
    if tree.tag != "domain" or not (tree.findtext("name") or "").strip():
        raise AbhError("not a domain with a name", where=path, got=f"<{tree.tag}>", next_step="give it one with --name")
    return xml.pretty(xml.text_of(tree), path)


def _fill(tree: ElementTree.Element, values: Mapping[str, str], path: Path) -> None:
    """Puts the values into texts and attributes: in a tree, no value can become an element, or end an attribute."""
    found: set[str] = set()

    def filled(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        if match[1] is None:
            raise AbhError(
                "no variable has such a name",
                where=path,
                got=match[0],
                expected="${small_letters_and_digits}",
                next_step="correct it, or write $${ for ${ itself",
            )
        found.add(match[1])
        return values.get(match[1], "")

    for each in tree.iter():
        if isinstance(each.tag, str):  # the text of others is a comment
            each.text = each.text and VARIABLE.sub(filled, each.text)
            for key, value in each.attrib.items():
                each.set(key, VARIABLE.sub(filled, value))
        each.tail = each.tail and VARIABLE.sub(filled, each.tail)
    if found != set(values):
        raise AbhError(
            "the domain's variables are not those given",
            where=path,
            got=", ".join(sorted(values)) or "(none)",
            expected=", ".join(sorted(found)) or "(none)",
            next_step="give each with --set NAME=VALUE",
            status=Status.USAGE,
        )


def check(document: str, where: object) -> str | None:
    """Has libvirt's own schemas judge it, without defining it anywhere; None, or why that could not be done."""
    libvirt = binding.load()
    tree = xml.verbatim(document, where)
    tree.set("type", "test")  # the driver that this is asked of has no hypervisor
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as node:
        node.write("<node/>")
        node.flush()
        with binding.connection(f"test://{node.name}") as private:
            try:
                private.defineXMLFlags(xml.text_of(tree), libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_XML_INVALID_SCHEMA:
                    raise AbhError(
                        "the XML is not valid by libvirt's schemas",
                        where=where,
                        got=error.get_error_message(),
                        next_step="correct it: https://libvirt.org/formatdomain.html",
                    ) from None
                # That driver cannot do all that the schemas allow.
                return None if "schema" not in str(error).lower() else f"not checked against schemas: {error}"
    return None
