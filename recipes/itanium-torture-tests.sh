#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs GCC's tests of execution on the bare machine; each ends with a status. Those that fail must be the known ones.
# In: /main (the checkout), /in/itanium, /in/itanium-torture; out: /out/failed, /out/results.
set -eu
export LIMIT=5000000000
cat >/obj/one <<'END'
#!/bin/sh
said=$(/in/itanium/itanium "$1" --memory 128 --instructions $LIMIT 2>&1) || true
case $said in
*"asked for reset 0, status 0"*) ;;
*) echo "${1#/in/itanium-torture/}: $(echo "$said" | grep -m1 itanium:)" ;;
esac
END
chmod +x /obj/one
printf '%s\0' /in/itanium-torture/O?/* | xargs -0 -n1 -P"$(nproc)" /obj/one | sort >/out/failed
count=$(printf '%s\n' /in/itanium-torture/O?/* | wc -l)
sed 's/:.*//' /out/failed | sort >/obj/failed
grep -v '^#' /main/tests/itanium/known-failures | sed 's/:.*//' | sort >/obj/known || true
echo "$count programs, $(wc -l </out/failed) failed, $(wc -l </in/itanium-torture/left) not compiled"
if ! diff /obj/known /obj/failed; then
	cat /out/failed
	echo "test result: FAILED. those that fail are not those of tests/itanium/known-failures"
	exit 1
fi
echo "test result: ok. $count programs"
