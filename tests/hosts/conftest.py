# SPDX-License-Identifier: MIT
"""A host to send a study to: a real SSH server, and a real Slurm of one node, in the root `cluster`, on loopback."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from abh.build import root
from tests.unit.test_through import there  # noqa: F401 # what the abh of that host says

PATIENCE_S = 60
SLURM = """ClusterName=abh
SlurmctldHost=cluster(127.0.0.1)
SlurmctldPort={ctld}
SlurmdPort={slurmd}
SlurmUser=root
AuthType=auth/slurm
CredType=cred/slurm
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
StateSaveLocation=/var/spool
SlurmdSpoolDir=/var/spool
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
NodeName=cluster NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""
SSHD = """ListenAddress 127.0.0.1:{sshd}
HostKey /etc/slurm/host
AuthorizedKeysFile /etc/slurm/user.pub
StrictModes no
UsePAM no
PidFile none
"""
SSH = "ssh -i /etc/slurm/user -p {sshd} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes"
# The abh of that host; it says on which host it ran.
ABH = '#!/bin/sh\nhostname > /srv/ran-on\nexec python3 /srv/there.py abh "$@"\n'


class Cluster:
    """The host: the words that run something inside it, and its daemons."""

    def __init__(self, folder: Path, served: Path) -> None:
        self.ports = dict(zip(("ctld", "slurmd", "sshd"), _free_ports(3), strict=True))
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.folder, self.served = folder, served
        for name in ("etc", "run/sshd", "spool", "bin"):
            (folder / name).mkdir(parents=True)
        (folder / "etc/slurm.conf").write_text(SLURM.format(**self.ports))
        (folder / "etc/cgroup.conf").write_text("CgroupPlugin=disabled\n")
        (folder / "etc/sshd_config").write_text(SSHD.format(**self.ports))
        (folder / "etc/slurm.key").write_bytes(os.urandom(1024))
        (folder / "etc/slurm.key").chmod(0o600)
        (folder / "bin/abh").write_text(ABH)
        (folder / "bin/abh").chmod(0o755)
        self.words = ["bwrap", "--ro-bind", str(root.path_of("cluster")), "/", "--dev", "/dev", "--proc", "/proc"]
        for inside, outside in (("/etc/slurm", "etc"), ("/run", "run"), ("/var/spool", "spool")):
            self.words += ["--bind", str(folder / outside), inside]
        self.words += ["--ro-bind", str(folder / "bin"), "/usr/local/bin", "--bind", str(served), "/srv"]
        self.words += ["--tmpfs", "/tmp", "--tmpfs", "/var/log", "--unshare-uts", "--hostname", "cluster"]
        self.words += ["--unshare-pid", "--die-with-parent", "--clearenv"]
        for name, value in {**root.ENVIRONMENT, "PATH": f"/usr/local/bin:{root.ENVIRONMENT['PATH']}"}.items():
            self.words += ["--setenv", name, value]
        for key in ("host", "user"):
            self.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"/etc/slurm/{key}")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.words, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def start(self, *words: str) -> None:
        log = (self.folder / f"{Path(words[0]).name}.log").open("ab")
        self.daemons[words[0]] = subprocess.Popen(
            [*self.words, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )

    def stop(self, name: str) -> None:
        daemon = self.daemons.pop(name)
        daemon.kill()
        daemon.wait(PATIENCE_S)

    def ssh(self) -> str:
        """What leads to it by SSH; the server is started, and answers."""
        self.start("/usr/sbin/sshd", "-D", "-e", "-f", "/etc/slurm/sshd_config")
        words = [*SSH.format(**self.ports).split(), "root@127.0.0.1"]
        self.wait_for(*words, "true")
        return shlex.join([*self.words, *words])

    def srun(self) -> str:
        """What leads to it by Slurm; its daemons are started, and the node is there."""
        self.start("slurmctld", "-D")
        self.start("slurmd", "-D", "-N", "cluster")
        self.wait_for("srun", "--immediate=5", "true")
        return shlex.join([*self.words, "srun", "--exclusive"])

    def wait_for(self, *words: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while (done := self.run(*words)).returncode:
            logs = "".join(log.read_text() for log in self.folder.glob("*.log"))
            assert time.monotonic() < end, done.stderr + logs[-3000:]
            time.sleep(0.5)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture
def cluster(there) -> Iterator[Cluster]:  # noqa: F811
    with tempfile.TemporaryDirectory(prefix="abh-") as folder:
        made = Cluster(Path(folder), there.folder)
        try:
            yield made
        finally:
            for name in list(made.daemons):
                made.stop(name)
            shutil.rmtree(made.folder / "spool", ignore_errors=True)
