#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the GNU C library for Itanium, static, as far as programs that test a kernel use it: no users, no conversions of
# character sets, no mathematics. With it goes a command that compiles and links with it.
# In: /src (Debian's patches, and none of ours), /in/ia64-gcc, /in/linux-ia64-headers, the root (its package
# gcc-12-source); scratch: /obj; out: /out.
set -eu
export PATH=/in/ia64-gcc/bin:"$PATH"
headers=/in/linux-ia64-headers/include lib=/out/lib
folders="csu malloc string stdlib stdio-common libio signal setjmp posix io nptl elf time misc termios locale ctype wcsmbs
	wctype intl iconv dirent resource assert gnulib argp debug gmon dlfcn socket inet resolv"
mkdir -p $lib /out/bin /obj/unwinder
cd /obj
# Shared objects are configured, though none is built: without them this version names no modules, and does not compile.
CC="ccache ia64-linux-gnu-gcc" CFLAGS=-O2 /src/configure --host=ia64-linux-gnu --build=x86_64-linux-gnu --prefix=/usr \
	--with-headers=$headers --enable-kernel=6.1 --disable-profile --disable-werror --disable-nscd --without-selinux
of() {
	folder=$1
	shift
	make -r -C "/src/$folder" subdir="$folder" ..=../ objdir=/obj object-suffixes=.o "$@"
}
# The top of the tree makes what all folders include; it does so before anything else. Of each folder, the stamp lists
# its objects for an archive.
make -j"$(nproc)" -r -C /src objdir=/obj object-suffixes=.o csu/subdir_lib
for each in $folders; do
	of "$each" -j"$(nproc)" "/obj/$each/stamp.o"
done
cat ./*/stamp.o | tr ' ' '\n' | sed '/^$/d' | LC_ALL=C sort -u | xargs ia64-linux-gnu-ar rcsD $lib/libc.a
cp csu/crt1.o csu/crti.o csu/crtn.o $lib
make -r -C /src objdir=/obj object-suffixes=.o install_root=/obj/headers install-headers
cp -r /obj/headers/usr/include $headers /out
: >/out/include/gnu/stubs.h # which functions are none: it is made with a library that is whole

# What compiles and links with it. The compiler was built without a C library, so its runtime has no unwinder, which
# leaving a thread takes: that is two of its files, and as much of its build's headers as these read.
cat >/out/bin/cc <<'END'
#!/bin/sh
here=${0%/*}/..
exec /in/ia64-gcc/bin/ia64-linux-gnu-gcc -isystem "$here/include" -B"$here/lib" -L"$here/lib" -static -nodefaultlibs "$@" \
	-Wl,--start-group -lc -lgcc_eh -lgcc -Wl,--end-group
END
chmod 755 /out/bin/cc
cd /obj/unwinder
tar -xf /usr/src/gcc-12/gcc-12*.tar.xz --no-same-owner --strip-components=2 --wildcards '*/libgcc/unwind*' \
	'*/libgcc/config/ia64/*'
for each in config coretypes libgcc_tm tconfig tm; do
	: >$each.h
done
cat >tsystem.h <<'END'
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#define gcc_assert(holds) ((holds) ? (void)0 : abort())
#define gcc_unreachable() abort()
#define ATTRIBUTE_UNUSED __attribute__((unused))
END
cp config/ia64/linux-unwind.h md-unwind-support.h
for each in unwind-ia64 fde-glibc; do
	/out/bin/cc -O2 -fexceptions -D_GNU_SOURCE -I. -include tsystem.h -c config/ia64/$each.c
done
ia64-linux-gnu-ar rcsD $lib/libgcc_eh.a unwind-ia64.o fde-glibc.o
