#!/bin/sh
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154  # packages/pack.sh, which reads this, sets doc and TREE
# The checkout's own files but for tests, the command, its manual pages and completions.
home=$TREE/usr/share/abh
mkdir -p "$home" "$TREE/usr/bin" "$TREE/usr/share/man/man1"
# shellcheck disable=SC2086  # folders and files
tar -C /main --exclude=__pycache__ --exclude=target --exclude=analysis/measured --exclude=analysis/out -c $READS |
	tar -C "$home" -x --no-same-owner
mkdir -p "$doc"
mv "$home/docs" "$doc/docs"
ln -s ../doc/abh/docs "$home/docs"
cp /main/packages/abh/abh "$TREE/usr/bin/abh"
chmod -R u=rwX,go=rX "$TREE/usr"
chmod 755 "$TREE/usr/bin/abh"
for page in /in/generated/*.1; do
	gzip -9nc "$page" > "$TREE/usr/share/man/man1/${page##*/}.gz"
done
install -Dm644 /in/generated/bash "$TREE/usr/share/bash-completion/completions/abh"
install -Dm644 /in/generated/zsh "$TREE/usr/share/zsh/vendor-completions/_abh"
install -Dm644 /in/generated/fish "$TREE/usr/share/fish/vendor_completions.d/abh.fish"
