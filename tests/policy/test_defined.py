# SPDX-License-Identifier: MIT
"""What `deploy` says and does where another has changed the domain, on a real libvirt."""

from __future__ import annotations

from abh.policy import domain, xml
from tests.policy import rig as rigs

DISK = """<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='/out/precious.img'/>
<target dev='vdz' bus='virtio'/></disk>"""


def test_a_disk_that_another_has_added_is_shown_before_it_is_lost(host, tmp_path):
    file = tmp_path / "a.xml"
    file.write_text(rigs.domain_xml("theirs"))
    assert "<nosharepages />" in host.abh("deploy", str(file), "--policy", "vm-thp", "--dry-run").out
    host.abh("deploy", str(file), "--policy", "vm-thp")
    one = domain.find(host.connection, "theirs")
    one.handle.attachDeviceFlags(DISK, domain.binding.load().VIR_DOMAIN_AFFECT_CONFIG)
    for words, status in ((("--dry-run",), 0), ((), 1)):
        out = host.abh("deploy", str(file), *words, status=status).out
        assert "precious.img" in out and "nothing to change" not in out, words
    assert "precious.img" in one.document()
    lost = host.abh("deploy", str(file), "--adopt", "--json").json["lost"]
    assert any(line.startswith("-") and "precious.img" in line for line in lost)
    assert "precious.img" not in one.document() and xml.NAMESPACE in one.document()
    assert "nothing to change" in host.abh("deploy", str(file)).out
