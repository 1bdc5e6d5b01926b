# SPDX-License-Identifier: MIT
"""What is described: every TOML and JSON file as a typed object, names of runs, kinds of numbers."""
