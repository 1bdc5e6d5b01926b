# SPDX-License-Identifier: MIT
"""The emulated machine: the one core that runs QEMU, and snapshots."""
