#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the Itanium machine's agent and workloads, static, and packs them; no cell is among them, each run adds its own.
# In: /main (the checkout), /in/ia64-gcc, /in/ia64-sqlite; scratch: /obj; out: /out.
set -eu
mkdir -p /obj/bin /obj/root/dev /obj/root/abh/workloads
gcc=/in/ia64-gcc/bin/ia64-linux-gnu-gcc
flags="-ffreestanding -isystem /main/agent/ia64/include"
# A loop that copies or fills is not to become a call of the very function that it is in.
for file in start.S libc.c; do
	# shellcheck disable=SC2086 # words
	$gcc -std=gnu17 -O2 -Wall -Wextra -Werror $flags -fno-tree-loop-distribute-patterns -c -o "/obj/${file%.*}.o" \
		"/main/agent/ia64/$file"
done
# What the workloads call their compiler: it links each with the library.
cat >/obj/bin/cc <<END
#!/bin/sh
exec $gcc $flags -I /in/ia64-sqlite -L /in/ia64-sqlite -nostdlib -static "\$@" /obj/start.o /obj/libc.o -lgcc
END
chmod 755 /obj/bin/cc
export PATH="/obj/bin:$PATH"
cc -std=gnu17 -O2 -Wall -Wextra -Werror -o /obj/root/init /main/agent/ia64/init.c
python3 -B /main/recipes/ia64-workloads.py
find /obj/root -type f -perm /111 -exec ia64-linux-gnu-strip {} +
# The kernel opens its console before it has mounted anything on /dev: its own archive has the node.
cd /obj/root
find . -exec touch -h -d @0 {} +
find . | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0 --reproducible >/out/initramfs.cpio
