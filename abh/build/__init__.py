# SPDX-License-Identifier: MIT
"""What is built: Debian roots, sources, patch series and components, in a cache keyed by content."""
