# SPDX-License-Identifier: MIT
"""Puts the hook where libvirt looks for it, and takes it away again; hooks of others stay as they are."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

from abh import files
from abh.errors import AbhError, as_root
from abh.policy import hook

HOOKS = Path("/etc/libvirt/hooks")
DRIVERS = ("qemu", "libxl")
SCRIPT = "50-abh"  # in <driver>.d, which libvirt has had since 6.5
ARCHIVE = "abh-hook.pyz"
MARK = "# abh: hook of libvirt"
PACKAGE = Path(hook.__file__).parent.parent
MODULES = (
    "__init__.py",
    "policy/__init__.py",
    *(f"policy/{name}.py" for name in ("backing", "hook", "host", "memory")),
)
LIMIT_S = 10
NOTHING = 3  # the status of what follows where nothing is required; how else it ends, something may be
# Whether the policy in a domain's XML requires something, when Python cannot say. As libvirt writes XML, "<" is always
# markup, but in a CDATA section. Only an element of our namespace counts: the word stands in descriptions, kernel
# command lines and the file of a deployment, too.
_ASKS = r"""
BEGIN { RS = "<" }
{
    end = index($0, ">"); tag = substr($0, 1, end)
    if (match(tag, /xmlns(:[^=]*)?=["\047]NAMESPACE["\047]/)) {
        prefix = substr(tag, RSTART + 5, RLENGTH - 5); sub(/=.*/, "", prefix); sub(/^:/, "", prefix)
        if (prefix != "") prefix = prefix ":"
        kept[prefix "vm"] = policy[prefix "policy"] = 1
    }
    name = tag; sub(/[ \t\n>].*/, "", name); sub("^/", "", name)
    if (name in kept && tag ~ /[ \t\n]required=["\047][ \t\n]*[^ \t\n"\047]/) found = 1
    text = inside ? $0 : substr($0, end + 1)
    if (name in policy) inside = tag !~ "^/" && tag !~ "/>$"
    if (inside && text ~ /REQUIRES/) found = 1
}
END { exit found ? 0 : NOTHING }
"""
_ASKS = _ASKS.replace("NAMESPACE", hook.NAMESPACE).replace("NOTHING", str(NOTHING))
_ASKS = _ASKS.replace("REQUIRES", hook.REQUIRES.replace("'", r"\047"))
# A hook that breaks must not stop a VM, so whatever is not an answer of the Python part counts as none; but a VM that
# requires something is not started unchecked.
WRAPPER = f"""#!/bin/sh
{MARK}; `abh policy hook uninstall` removes it.
xml=$(cat)
printf '%s\\n' "$xml" | timeout -k 2 {LIMIT_S} /usr/bin/python3 -I "$(dirname "$0")/../{ARCHIVE}" "$@"
status=$?
[ "$status" != 0 ] || exit 0
[ "$status" != {hook.REFUSED} ] || exit 1
logger -t abh -- "VM '$1': the hook has failed ($2, status $status)" 2>/dev/null
case $2 in
prepare | started) ;;
*) exit 0 ;;
esac
case $xml in
*'{hook.NAMESPACE}'*) ;;
*) exit 0 ;;
esac
printf '%s\\n' "$xml" | awk '{_ASKS}'
[ $? != {NOTHING} ] || exit 0
echo "abh: the hook has failed (status $status), and the policy of '$1' requires settings" >&2
exit 1
"""


@dataclass(frozen=True)
class Installed:
    """What is there: of each driver, whether its script is as it would be installed now."""

    state: str  # "installed", "outdated", "not installed"
    files: tuple[str, ...]


def _archive() -> bytes:
    """The hook as one file: a zip that Python runs. The same sources give the same bytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(
            zipfile.ZipInfo("__main__.py"),
            "import sys\nfrom abh.policy import hook\nsys.exit(hook.main(sys.argv[1:]))\n",
        )
        for name in MODULES:
            archive.writestr(zipfile.ZipInfo(f"abh/{name}"), (PACKAGE / name).read_bytes())
    return made.getvalue()


def _scripts(hooks: Path) -> list[Path]:
    return [hooks / f"{driver}.d" / SCRIPT for driver in DRIVERS]


def _check_ours(path: Path) -> None:
    if path.is_symlink() or (path.exists() and MARK.encode() not in path.read_bytes()):
        raise AbhError(
            "this file is not abh's", where=path, next_step="look at it; give it another name, or remove it yourself"
        )


def _files(hooks: Path) -> dict[Path, tuple[bytes, int]]:
    return {hooks / ARCHIVE: (_archive(), 0o644), **{path: (WRAPPER.encode(), 0o755) for path in _scripts(hooks)}}


def install(hooks: Path = HOOKS) -> Installed:
    """Writes the hook's files; the scripts last, as they are what libvirt runs."""
    try:
        for path in _scripts(hooks):
            _check_ours(path)
        for path, (content, mode) in _files(hooks).items():
            files.write_bytes(path, content, mode)
    except OSError as error:
        raise _refused(hooks, error) from error
    return examine(hooks)


def uninstall(hooks: Path = HOOKS) -> Installed:
    """Removes them, the scripts first; folders that are empty then, too."""
    try:
        for path in reversed(_files(hooks)):
            if path in _scripts(hooks):
                _check_ours(path)
            path.unlink(missing_ok=True)
        for driver in DRIVERS:
            folder = hooks / f"{driver}.d"
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
    except OSError as error:
        raise _refused(hooks, error) from error
    return examine(hooks)


def examine(hooks: Path = HOOKS) -> Installed:
    """What is there."""
    wanted = _files(hooks)
    there = {path: path.read_bytes() for path in wanted if path.is_file()}
    if not there:
        return Installed("not installed", ())
    same = all(there.get(path) == content for path, (content, _) in wanted.items())
    return Installed("installed" if same else "outdated", tuple(str(path) for path in there))


def _refused(hooks: Path, error: OSError) -> AbhError:
    step = as_root("make the folder writable, or name another with --hooks")
    return AbhError("the hook's files cannot be changed", where=hooks, got=error.strerror, next_step=step)
