#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the workloads of the folders of $READS and their seeded inputs. In: /main (the checkout); out: /out/<name>.
set -eu
exec python3 -B /main/recipes/workloads.py
