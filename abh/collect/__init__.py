# SPDX-License-Identifier: MIT
"""What real processors and kernels count around a program or a virtual machine: perf, and the kernel's own counters."""
