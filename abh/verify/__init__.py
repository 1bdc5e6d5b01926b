# SPDX-License-Identifier: MIT
"""What is verified: kernels under test, upstream's own suites, the stages of the tests."""
