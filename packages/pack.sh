#!/bin/sh
# SPDX-License-Identifier: MIT
# Packs one package: lays its files out by its own stage.sh in $TREE, adds what Debian asks of every package, and has
# dpkg-deb make it. The same files give the same package.
set -eu
export TREE=/tmp/tree SOURCE_DATE_EPOCH=1767225600 # 2026-01-01
doc=$TREE/usr/share/doc/$PACKAGE
mkdir -p "$doc" "$TREE/DEBIAN"

cp /in/told/* "$TREE/DEBIAN/"
# shellcheck source=/dev/null
. "/main/packages/$PACKAGE/stage.sh"

for script in preinst postinst prerm postrm; do
	[ ! -e "$TREE/DEBIAN/$script" ] || chmod 755 "$TREE/DEBIAN/$script"
done
{
	echo 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/'
	echo 'Upstream-Name: abh'
	printf '\nFiles: *\nCopyright: 2026, the authors of abh, and of what its series are patches to\nLicense: %s\n' "$LICENCE"
	printf ' Each file of the sources names its licence in an SPDX line.\n'
	for name in GPL-2 LGPL-2.1; do
		printf ' The text of %s is in /usr/share/common-licenses/%s.\n' "$name" "$name"
	done
} > "$doc/copyright"
case $VERSION in
*-*) changelog=changelog.Debian.gz ;;
*) changelog=changelog.gz ;; # of a package that Debian calls native
esac
{
	printf '%s (%s) unstable; urgency=medium\n\n' "$PACKAGE" "$VERSION"
	printf '  * Packed from the sources of abh.\n\n'
	printf ' -- abh developers <abh@localhost.invalid>  Thu, 01 Jan 2026 00:00:00 +0000\n'
} | gzip -9n > "$doc/$changelog"

find "$TREE" -type d -exec chmod 755 {} +
find "$TREE" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
cd "$TREE"
find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum > DEBIAN/md5sums
printf 'Installed-Size: %s\n' "$(du -sk --exclude=DEBIAN . | cut -f1)" > /tmp/size
sed -i '/^Section:/e cat /tmp/size' DEBIAN/control
dpkg-deb --root-owner-group -Zxz --build . /out > /dev/null
