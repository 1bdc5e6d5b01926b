# SPDX-License-Identifier: MIT
"""This computer: which packages it lacks, and what it offers, found out by trying."""
