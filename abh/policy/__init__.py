# SPDX-License-Identifier: MIT
"""Per-VM policies on hosts with libvirt: what docs/policy.md describes."""
