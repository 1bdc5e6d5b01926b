#!/bin/sh
# SPDX-License-Identifier: MIT
# Packs the command and the policies with what is done with them in a Xen host (tests/policy/xen/run).
# In: /main (the checkout); scratch: /obj; out: /out.
set -eu
mkdir -p /obj/tests/abh/abh/commands /obj/tests/abh/vm-configs
cd /main
cp pyproject.toml /obj/tests/abh/
cp -r vm-configs/policies /obj/tests/abh/vm-configs/
cp abh/*.py /obj/tests/abh/abh/
cp -r abh/schema abh/policy /obj/tests/abh/abh/
cp abh/commands/__init__.py abh/commands/policy.py abh/commands/deploy.py abh/commands/status.py /obj/tests/abh/abh/commands/
cp tests/policy/xen/* docs/policy.md /obj/tests/
rm -rf /obj/tests/abh/abh/*/__pycache__
# Small: the host reads it from the machine byte by byte, and each part of it from the beginning.
tar -C /obj/tests --sort=name --owner=0 --group=0 --mtime=@0 -c . | gzip -9n >/out/tests.tgz
