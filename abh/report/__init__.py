# SPDX-License-Identifier: MIT
"""Results to tables and the page."""
