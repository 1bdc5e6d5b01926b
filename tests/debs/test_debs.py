# SPDX-License-Identifier: MIT
"""The Debian packages pass lintian, and install, upgrade, work and go in a Debian 13 that is thrown away."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from abh import cli, paths
from abh.build import components, debs, root
from abh.schema import package

NAMES = tuple(package.PACKAGE.paths(paths.CHECKOUT))
# What lintian minds, and why it stays. Whatever else it says is a failure.
EXCUSED = {
    "debian-revision-not-well-formed": "a version says its base, which has a revision of its own, and its series",
    "script-not-executable": "what the bench reads by a shell of its choice",
    "unusual-interpreter": "a script of the emulated machine, which has busybox",
    "uses-dpkg-database-directly": "a recipe that makes an image without one",
}


class Debian:
    """A Debian 13 of one test's own."""

    def __init__(self, folder, packages):
        self.packages = packages
        self.debs = folder / "debs"
        self.root = folder / "root"
        shutil.copytree(root.path_of("debs"), self.root, symlinks=True)
        self.enter = root.enter(self.root, read_only={"/mnt": self.debs}, root_writable=True)

    def files_of_packages(self):
        return [f"/mnt/{name}.deb" for name in self.packages]

    def run(self, *words, check=True):
        done = subprocess.run([*self.enter, *words], capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done

    def files(self):
        """All files, but what dpkg and others keep for themselves."""
        words = (
            "find",
            "/usr",
            "/etc",
            "/boot",
            "/opt",
            "-xdev",
            "-not",
            "-name",
            "*.pyc",
            "-not",
            "-name",
            "__pycache__",
        )
        kept = ("/etc/ld.so.cache", "/usr/share/applications")
        return {line for line in self.run(*words).stdout.splitlines() if not line.startswith(kept)}


@pytest.fixture(scope="module")
def one_debian(tmp_path_factory, made):
    """One for all tests; the packages are in /mnt."""
    folder = tmp_path_factory.mktemp("debian")
    (folder / "debs").mkdir()
    for name, path in made.items():
        shutil.copyfile(path, folder / "debs" / f"{name}.deb")
    return Debian(folder, made)


@pytest.fixture
def debian(one_debian):
    """The same, with nothing of ours in it: what a test that failed has left goes."""
    yield one_debian
    one_debian.run("dpkg", "--purge", *NAMES, check=False)


def test_versions_say_base_and_series():
    for name in NAMES:
        one = package.PACKAGE.one(name, paths.CHECKOUT)
        found = debs.version(one, "1.2")
        assert found == "1.2" if name == "abh" else re.fullmatch(r"\d.*\+abh1\.2\.20\d{10}\.[0-9a-f]{8}", found)


def test_lintian_lets_them_pass(debian):
    said = debian.run("lintian", "--allow-root", "--tag-display-limit", "0", *debian.files_of_packages(), check=False)
    tags = [line.split() for line in said.stdout.splitlines() if line[:2] in ("E:", "W:")]
    assert [words for words in tags if words[2] not in EXCUSED] == []
    assert {words[2] for words in tags} == set(EXCUSED), said.stderr  # what is no longer said needs no excuse


def test_the_tools_install_work_and_go(debian):
    before = debian.files()
    debian.run("dpkg", "-i", "/mnt/abh.deb")
    assert debian.run("abh", "--version").stdout == f"abh {cli.version()}\n"
    assert "amd-zen-4" in debian.run("ls", "/usr/share/abh/vm-configs/events").stdout
    assert "sqlite" in debian.run("abh", "list").stdout
    refused = debian.run("abh", "collect", "--", "true", check=False)
    assert refused.returncode == 1 and "perf is not installed" in refused.stderr
    assert debian.run("abh", "exec", "no-such-program", check=False).returncode in (1, 127)
    page = debian.run("man", "--warnings", "abh-collect")
    assert "interrupted measurement goes on" in " ".join(page.stdout.split()) and not page.stderr
    completed = "source /usr/share/bash-completion/completions/abh; complete -p abh"
    assert "abh" in debian.run("bash", "-c", completed).stdout
    debian.run("dpkg", "-i", "/mnt/abh.deb")  # over itself, as an upgrade
    debian.run("dpkg", "--purge", "abh")
    assert debian.files() - before == set()


def test_a_purge_takes_the_hook_and_leaves_that_of_another(debian):
    hooks = debian.root / "etc/libvirt/hooks"
    (hooks / "libxl.d").mkdir(parents=True)
    before = debian.files()
    for theirs in (False, True):
        debian.run("dpkg", "-i", "/mnt/abh.deb")
        debian.run("abh", "policy", "hook", "install")
        assert (hooks / "qemu.d/50-abh").exists() and (hooks / "abh-hook.pyz").exists()
        if theirs:
            (hooks / "libxl.d/50-abh").write_text("#!/bin/sh\n")
        debian.run("dpkg", "--remove", "abh")
        assert (hooks / "qemu.d/50-abh").exists()  # what VMs require is enforced still
        debian.run("dpkg", "--purge", "abh")
        assert (debian.files() - before) == ({"/etc/libvirt/hooks/libxl.d/50-abh"} if theirs else set())
    shutil.rmtree(debian.root / "etc/libvirt")


def test_the_c_library_stands_beside_the_systems(debian):
    before = debian.files()
    system = debian.run("sha256sum", "/usr/lib/x86_64-linux-gnu/libc.so.6").stdout
    debian.run("dpkg", "-i", "/mnt/abh-glibc.deb")
    assert debian.run("sha256sum", "/usr/lib/x86_64-linux-gnu/libc.so.6").stdout == system
    maps = "import os; print(open('/proc/self/maps').read(), os.environ['GLIBC_TUNABLES'])"
    under = debian.run("abh-glibc-run", "python3", "-c", maps).stdout
    assert "/usr/lib/abh/glibc/libc.so.6" in under and "/x86_64-linux-gnu/libc.so.6" not in under
    assert under.endswith("glibc.malloc.abh=1\n")
    assert "/usr/lib/abh" not in debian.run("python3", "-c", "print(open('/proc/self/maps').read())").stdout
    assert debian.run("abh-glibc-run", "sh", "-c", "exit 7", check=False).returncode == 7
    assert debian.run("abh-glibc-run", "no-such", check=False).returncode == 127
    assert debian.run("abh-glibc-run", check=False).returncode == 2
    assert debian.run("abh-glibc-run", "bash", "-c", "echo $0 $1", "first", "second").stdout == "first second\n"
    debian.run("abh-glibc-run", "python3", "-c", LOCALE)
    debian.run("dpkg", "--purge", "abh-glibc")
    assert debian.files() - before == set()


SYSTEM_FILES = ("ld-linux-x86-64.so.2", "libc.so.6", "libc_malloc_debug.so.0")
LOCALE = "import locale; locale.setlocale(locale.LC_ALL, 'C.UTF-8')"


def test_the_c_library_takes_the_systems_place_and_gives_it_back(debian):
    """Every program has it; libc6's own comes back, and so does what libc6 has been given meanwhile."""

    def sums():
        paths_ = [f"/usr/lib/x86_64-linux-gnu/{name}" for name in SYSTEM_FILES]
        return debian.run("sha256sum", *paths_).stdout

    before, stock = debian.files(), sums()
    ours = ["/mnt/abh-glibc.deb", "/mnt/abh-glibc-system.deb"]
    for _ in range(2):  # the second time over itself, as an upgrade
        debian.run("dpkg", "-i", *ours)
        assert debian.run("cmp", "/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/abh/glibc/libc.so.6").returncode == 0
        assert not set(stock.split()[::2]) & set(sums().split()[::2])
    debian.run("ldconfig")
    tunables = debian.run("/lib64/ld-linux-x86-64.so.2", "--list-tunables").stdout
    assert "glibc.malloc.abh: 0 " in tunables
    maps = debian.run("python3", "-c", f"{LOCALE}; print(open('/proc/self/maps').read())").stdout
    assert "/usr/lib/x86_64-linux-gnu/libc.so.6" in maps and "/usr/lib/abh" not in maps
    assert debian.run("env", "GLIBC_TUNABLES=glibc.malloc.abh=1", "python3", "-c", "print(7)").stdout == "7\n"
    # As dpkg puts what a newer libc6 brings.
    where = debian.run("dpkg-divert", "--truename", "/usr/lib/x86_64-linux-gnu/libc.so.6").stdout.strip()
    assert where == "/usr/lib/abh/stock/libc.so.6"
    refused = debian.run("dpkg", "--remove", "abh-glibc", check=False)
    assert refused.returncode != 0 and "dependency problems" in refused.stderr
    for script, word, there in (("prerm", "remove", True), ("postinst", "abort-remove", False)):  # given up half way
        debian.run(f"/var/lib/dpkg/info/abh-glibc-system.{script}", word)
        assert (sums() == stock) == there
    debian.run("dpkg", "--purge", "abh-glibc-system")
    assert sums() == stock
    debian.run("dpkg", "--purge", "abh-glibc")
    assert debian.files() - before == set() and before - debian.files() == set()
    assert "abh" not in debian.run("dpkg-divert", "--list").stdout


def test_a_newer_one_replaces_an_older(debian):
    older = debs.path_of("abh-glibc", "0.0.9")
    shutil.copyfile(older, debian.debs / "older.deb")

    def installed(name):
        debian.run("dpkg", "-i", f"/mnt/{name}.deb")
        return debian.run("dpkg-query", "-W", "-f", "${Version}", "abh-glibc").stdout

    first, second = installed("older"), installed("abh-glibc")
    assert "+abh0.0.9." in first and f"+abh{cli.version()}." in second
    debian.run("dpkg", "--compare-versions", second, "gt", first)
    base = components.version_of("glibc")
    debian.run("dpkg", "--compare-versions", second, "gt", base)
    assert debian.run("abh-glibc-run", "true").returncode == 0
    listed = set(debian.run("dpkg", "-L", "abh-glibc").stdout.split())
    assert "/usr/bin/abh-glibc-run" in listed
    debian.run("dpkg", "--purge", "abh-glibc")


def test_the_hypervisor_is_one_more_file_in_boot(debian):
    before = debian.files()
    debian.run("dpkg", "-i", "/mnt/xen-hypervisor-abh.deb")
    (image,) = [each for each in debian.files() - before if each.startswith("/boot/xen-") and each.endswith(".gz")]
    assert debian.run("sh", "-c", f"gzip -dc {image} | head -c 4").stdout.startswith("\x7fELF")
    refused = debian.run("xen-superpages", "1", check=False)  # there is no Xen here
    assert refused.returncode == 1 and "/dev/xen/hypercall" in refused.stderr
    debian.run("dpkg", "--purge", "xen-hypervisor-abh")
    assert debian.files() - before == set()


XL_ABH = "/usr/lib/xen-abh"


def test_xl_stands_beside_debians(debian):
    """It has its own libraries, and so has the helper of Debian's that it starts; all else is of what it depends on."""
    before = debian.files()
    system = [
        "/usr/lib/xen-4.20/bin/xl",
        *(f"/usr/lib/x86_64-linux-gnu/{name}.so.4.20" for name in ("libxenlight", "libxenguest")),
    ]
    stock = debian.run("sha256sum", *system).stdout
    debian.run("dpkg", "-i", "/mnt/xen-utils-abh.deb")
    assert debian.run("sha256sum", *system).stdout == stock

    def linked(program):
        said = debian.run("env", f"LD_LIBRARY_PATH={XL_ABH}", "ldd", program).stdout
        assert "not found" not in said
        return dict(re.findall(r"(\S+) => (\S+)", said))

    own = linked(f"{XL_ABH}/bin/xl")
    assert {name for name, path in own.items() if path.startswith(XL_ABH)} == {
        "libxenlight.so.4.20",
        "libxenguest.so.4.20",
    }
    assert linked("/usr/lib/xen-4.20/bin/libxl-save-helper")["libxenguest.so.4.20"].startswith(XL_ABH)
    ours = [path for path in debian.run("dpkg", "-L", "xen-utils-abh").stdout.split() if path.startswith(XL_ABH)]
    headers = debian.run("objdump", "-p", *(path for path in ours if "/xl" in path or ".so" in path)).stdout
    needed = {own[name] for name in re.findall(r"NEEDED +(\S+)", headers)}
    others = (f"/usr{path}" for path in needed if not path.startswith(XL_ABH))  # dpkg knows no /lib
    owners = debian.run("dpkg", "-S", *others).stdout
    depends = debian.run("dpkg-query", "-W", "-f", "${Depends}", "xen-utils-abh").stdout
    named = {each.split()[0] for each in depends.split(", ")}
    assert {line.partition(":")[0] for line in owners.splitlines()} == named - {"xen-utils-4.20"}
    refused = debian.run("xl-abh", "shadow-superpages", "0", check=False)  # there is no Xen here
    assert refused.returncode == 1 and "cannot open libxc handle" in refused.stderr
    page = debian.run("man", "--warnings", "xl-abh")
    assert "shadow_superpages" in page.stdout and not page.stderr
    debian.run("dpkg", "-i", "/mnt/xen-utils-abh.deb")  # over itself, as an upgrade
    debian.run("dpkg", "--purge", "xen-utils-abh")
    assert debian.files() - before == set()


def test_the_kernel_stands_beside_others(debian):
    before = debian.files()
    (debian.root / "etc/kernel/postinst.d").mkdir(parents=True, exist_ok=True)
    hook = debian.root / "etc/kernel/postinst.d/zz-told"
    hook.write_text('#!/bin/sh\necho "$1 $2" > /boot/told\n')
    hook.chmod(0o755)
    debian.run("dpkg", "-i", "/mnt/linux-image-abh.deb")
    new = debian.files() - before
    (image,) = [each for each in new if each.startswith("/boot/vmlinuz-")]
    release = image.removeprefix("/boot/vmlinuz-")
    assert release.endswith("-abh")
    assert release in debian.run("linux-version", "list").stdout.split()  # of which boot loaders make their menus
    assert (debian.root / "boot/told").read_text() == f"{release} {image}\n"
    assert f"/usr/lib/modules/{release}/modules.dep" in new  # made by depmod, here
    booted = components.path_of("linux") / "vmlinuz"  # what the tests of the bench boot
    assert (debian.root / image[1:]).read_bytes() == booted.read_bytes()
    assert "CONFIG_ABH=y" in (debian.root / f"boot/config-{release}").read_text()
    (debian.root / "boot/told").unlink()
    hook.unlink()
    debian.run("dpkg", "-i", "/mnt/linux-image-abh.deb")
    debian.run("dpkg", "--purge", "linux-image-abh")
    assert {each for each in debian.files() - before if not each.startswith("/etc/kernel")} == set()


def test_the_same_sources_give_the_same_package(made, tmp_path):
    one = package.PACKAGE.one("abh-glibc", paths.CHECKOUT)
    again = tmp_path / "again"
    again.mkdir()
    debs._pack(one, cli.version(), {}, {"/in/glibc": components.path_of("glibc")}, again)
    (other,) = again.glob("*.deb")
    assert other.read_bytes() == made["abh-glibc"].read_bytes()
