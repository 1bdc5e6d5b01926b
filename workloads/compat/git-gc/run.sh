#!/bin/sh
# SPDX-License-Identifier: MIT
# Takes a history in, packs it anew as `git gc` does, and has git check all of it.
set -eu
export HOME=/tmp GIT_CONFIG_GLOBAL=/dev/null
git init -q --bare -b main /tmp/repository
cd /tmp/repository
git fast-import --quiet <"$OLDPWD/history"
git repack -q -a -d -f --depth=20 --window=20 --no-write-bitmap-index
git gc -q --prune=now
git fsck --full --strict 2>&1
echo "objects: $(git count-objects -v | sed -n 's/^in-pack: //p')"
echo "answer: $(git rev-parse main)"
