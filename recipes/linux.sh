#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds a kernel with exactly the options of the folders $READS, nothing else. Where two give an option, the last holds:
# the debug kernel is the bench's one, and its own folder on top.
# In: /src (patched), /main (the checkout); scratch: /obj; out: /out.
set -eu
for folder in $READS; do
	for file in "/main/$folder"/*.config; do
		# Options of a patch are for a kernel that has it: a prefix of the series builds too.
		needs=$(sed -n 's/^# Needs: //p' "$file")
		[ -z "$needs" ] || [ -e "/src/$needs" ] || continue
		cat "$file"
	done
done | awk -F= '/^CONFIG_/ { option[$1] = $0 } END { for (name in option) print option[name] }' | sort > /obj/wanted.config
cd /src
make -s O=/obj KCONFIG_ALLCONFIG=/obj/wanted.config allnoconfig

# An option that Kconfig dropped silently would surface much later, as a guest that does not boot.
lost=$(grep -E '^CONFIG_[A-Z0-9_]+=' /obj/wanted.config | while IFS= read -r line; do
	name=${line%%=*}
	case $line in
	*=n) ! grep -q "^$name=" /obj/.config || echo "$line" ;;
	*) grep -qxF "$line" /obj/.config || echo "$line" ;;
	esac
done)
[ -z "$lost" ] || { echo "options that this kernel does not take as asked: $lost" >&2; exit 1; }

export KBUILD_BUILD_TIMESTAMP=2026-01-01 KBUILD_BUILD_USER=abh KBUILD_BUILD_HOST=abh
make O=/obj CC="ccache gcc" -j"$(nproc)" vmlinux modules
# The image holds the kernel by .incbin, which the compiler's cache does not see: it would be another of the same size.
CCACHE_DISABLE=1 make O=/obj CC="ccache gcc" -j"$(nproc)" bzImage
make -s O=/obj INSTALL_MOD_PATH=/out/modules INSTALL_MOD_STRIP=1 modules_install
rm -f /out/modules/lib/modules/*/build
cp /obj/arch/x86/boot/bzImage /out/vmlinuz
cp /obj/.config /out/config
