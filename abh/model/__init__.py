# SPDX-License-Identifier: MIT
"""The MMU model beside a run: what it is told and says."""
