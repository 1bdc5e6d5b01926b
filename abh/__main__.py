# SPDX-License-Identifier: MIT
"""Lets `python -m abh` be the command."""

import sys

from abh.cli import main

sys.exit(main())
