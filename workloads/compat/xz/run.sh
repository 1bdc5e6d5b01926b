#!/bin/sh
# SPDX-License-Identifier: MIT
# Compresses a file and unpacks it again; the answer is the digest of what came out.
set -eu
xz -T1 "-$2" -k -c "$1" >/tmp/packed.xz
echo "packed_bytes: $(stat -c %s /tmp/packed.xz)"
echo "answer: $(xz -T1 -dc /tmp/packed.xz | sha256sum | cut -d' ' -f1)"
