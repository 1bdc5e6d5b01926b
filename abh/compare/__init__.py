# SPDX-License-Identifier: MIT
"""What is compared: malloc implementations side by side."""
