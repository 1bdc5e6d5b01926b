# SPDX-License-Identifier: MIT
"""Helpers of the project itself: nothing here is needed to run the study."""
