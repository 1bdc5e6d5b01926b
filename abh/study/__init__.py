# SPDX-License-Identifier: MIT
"""A study: its cells, what each is told and answers, and how it is judged."""
