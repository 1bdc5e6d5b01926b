# SPDX-License-Identifier: MIT
"""Which card of a domain that is deployed anew gets the address of which old one."""

from __future__ import annotations

import pytest

from abh.policy import carried, xml


def domain_of(*cards: str) -> str:
    """Cards are words: network, model or -, target or -, and an address or nothing."""
    made = []
    for card in cards:
        network, model, target, *address = card.split()
        words = [f"<source bridge='{network}'/>"]
        words += [f"<model type='{model}'/>"] * (model != "-") + [f"<target dev='{target}'/>"] * (target != "-")
        words += [f"<mac address='{each}'/>" for each in address]
        made.append(f"<interface type='bridge'>{''.join(words)}</interface>")
    return f"<domain><name>a</name><devices>{''.join(made)}</devices></domain>"


@pytest.mark.parametrize(
    ("last", "old", "new", "expected"),
    [
        # A card more, of another model, before the one that was there.
        (["b virtio -"], ["b virtio - 1"], ["b e1000 -", "b virtio -"], [None, "1"]),
        # libvirt has given it the model that the new one names.
        (["b - -"], ["b rtl8139 - 1"], ["b rtl8139 -", "b - -"], [None, "1"]),
        # Another program has added a card: the last deployment does not tell which is which, the models do.
        (["b virtio -"], ["b e1000 - 2", "b virtio - 1"], ["b virtio -"], ["1"]),
        # By their targets, though they have changed places, and networks.
        (["b - v0", "c - v1"], ["b rtl v0 1", "c rtl v1 2"], ["c rtl v0", "b rtl v1"], ["1", "2"]),
        # A card that has another network, or model, now is the same card, if none is more like it.
        (["b virtio -"], ["b virtio - 1"], ["c virtio -"], ["1"]),
        (["b virtio -", "c virtio -"], ["b virtio - 1", "c virtio - 2"], ["c e1000 -"], ["2"]),
        # One that the file says belongs to nobody else.
        (["b virtio -"], ["b virtio - 1"], ["b virtio -", "c virtio - 1"], [None, "1"]),
        ([], ["b virtio - 1", "b virtio - 2"], ["b virtio -", "b virtio -"], ["1", "2"]),
    ],
)
def test_an_address_stays_with_its_card(last, old, new, expected):
    tree = xml.verbatim(domain_of(*new), "here")
    carried.carry(tree, xml.verbatim(domain_of(*old), "here"), domain_of(*last) if last else "")
    macs = [card.find("mac") for card in tree.findall("devices/interface")]
    assert [None if mac is None else mac.get("address") for mac in macs] == expected
