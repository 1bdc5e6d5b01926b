# SPDX-License-Identifier: MIT
"""The machine that is measured: its processor, its kernel, and the settings that decide what pages programs get."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

from abh import paths
from abh.errors import AbhError
from abh.schema.events import Identity

CPUINFO = Path("/proc/cpuinfo")
PMUS = Path("/sys/bus/event_source/devices")
WATCHDOG = Path("/proc/sys/kernel/nmi_watchdog")
SETTINGS = (paths.THP / "enabled", paths.THP / "defrag", Path("/sys/kernel/mm/abh/enabled"))


@dataclass(frozen=True)
class Machine:
    """What was found."""

    cpu: Identity
    in_guest: bool  # a hypervisor shows itself to the processor's software
    watchdog: bool  # the kernel's own takes a counter
    kernel: str
    settings: dict[str, str]

    @property
    def text(self) -> str:
        """One line for a result's provenance."""
        set_to = ", ".join(f"{path} is {value}" for path, value in self.settings.items())
        return f"{self.cpu}, {os.cpu_count()} CPUs, Linux {self.kernel}; {set_to or 'no hugepages'}"


def cpu_of(cpuinfo: str) -> tuple[Identity, bool]:
    """The first processor of /proc/cpuinfo, and whether a hypervisor shows itself to it."""
    table = {}
    for line in cpuinfo.split("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        table[key.strip()] = value.strip()
    try:
        cpu = Identity(table["vendor_id"], int(table["cpu family"]), int(table["model"]), table.get("model name", ""))
    except (KeyError, ValueError) as error:
        raise AbhError(
            "the kernel does not say which processor this is",
            where=CPUINFO,
            got=f"{type(error).__name__}: {error}",
            expected="vendor_id, cpu family and model, as on x86",
            next_step="count what the kernel counts alone, with --software",
        ) from None
    return cpu, "hypervisor" in table.get("flags", "").split()


def find() -> Machine:
    """This machine."""
    cpu, in_guest = cpu_of(CPUINFO.read_text(encoding="utf-8"))
    watchdog = WATCHDOG.exists() and WATCHDOG.read_text(encoding="ascii").strip() == "1"
    return Machine(cpu, in_guest, watchdog, platform.release(), settings())


def settings() -> dict[str, str]:
    """The settings that there are, and what each is set to."""
    return {str(path): _chosen(path.read_text(encoding="ascii")) for path in SETTINGS if path.exists()}


def _chosen(text: str) -> str:
    return next((word[1:-1] for word in text.split() if word.startswith("[")), text.strip())


def commit() -> str:
    """The project's own, where this is a checkout."""
    words = ["git", "-C", str(paths.CHECKOUT), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "unknown"
    return done.stdout.strip() or "unknown"
