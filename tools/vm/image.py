# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The guest's boot image: a stock Debian kernel and the modules it needs, built once and cached.

Packages are fetched and unpacked below the cache folder; nothing is installed. A finished image is
a folder named after the kernel release and this file's contents, so an image that another edition
made does not count. It appears by a rename, so a half-done image does not count either. A kernel
that was asked for by another name, such as a suite of Debian, is a link to its image.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import lzma
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator

# Modules in the order in which they are loaded, each after its dependencies; modules that the
# kernel has built in are left out.
MODULES = (
    "virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay",
    "crc32c_generic", "crc32c_intel", "crc32_generic", "crc32_pclmul",
    "dummy", "ib_uverbs", "rdma_ucm", "rdma_rxe", "siw",
)
# Modules that rxe and siw ask for by name; newer ones call the functions of the kernel's library.
OF_OLD_KERNELS = ("crc32c_generic", "crc32c_intel", "crc32_generic", "crc32_pclmul")
PARAMETERS = {"dummy": "numdummies=0"}  # keeps it from making a dummy0 of its own

DIRECTORY, EXECUTABLE, FILE = 0o040755, 0o100755, 0o100644
MIRROR = "http://deb.debian.org/debian"  # has the suites that --kernel names
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
LOADER = "usr/lib64/ld-linux-x86-64.so.2"

HASH = hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()[:12]

Doing = Callable[[str], None]  # receives the current action, for a progress line


@dataclasses.dataclass
class Problem(Exception):
    """The reason of a failure, a remedy, and the exit status."""

    cause: str
    way_out: str
    status: int = 77


@dataclasses.dataclass(frozen=True)
class Image:
    """A cached image that can be booted."""

    folder: pathlib.Path

    @property
    def kernel(self) -> pathlib.Path:
        return self.folder / "vmlinuz"

    @property
    def initramfs(self) -> pathlib.Path:
        return self.folder / "initramfs"


def cache_folder() -> pathlib.Path:
    below = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(os.environ.get("DAPL_VM_CACHE") or pathlib.Path(below) / "dapl-vm")


def find(cache: pathlib.Path, name: str | None) -> Image:
    """The image of this kernel, or the image prepared last without a name."""
    folder = cache / f"{name or 'default'}-{HASH}"
    if folder.is_dir():
        return Image(folder.resolve())
    kernel = f" --kernel {name}" if name else ""
    raise Problem(f"the guest's kernel is not prepared, or by another edition of this ({cache})",
                  f"run: {sys.argv[0]} --prepare{kernel}  (fetches some 300 MB, takes a minute)")


def prepare(cache: pathlib.Path, name: str | None, doing: Doing) -> Image:
    """Make the image if it is not there; one process at a time."""
    with locked(cache, doing), working_folder(cache, doing) as work:
        suite = name if name and not name[0].isdigit() else None
        doing("asking apt for the kernel")
        packages = Packages(lists_of(suite, work) if suite else (), newer=bool(suite))
        release = packages.newest_release() if suite or not name else name
        folder = cache / f"{release}-{HASH}"
        if not folder.is_dir():
            require_builders()
            build(work, packages, release, doing).rename(folder)
        if name != release:
            link = work / "link"
            link.symlink_to(folder.name)
            link.replace(cache / f"{name or 'default'}-{HASH}")
        return Image(folder)


@contextlib.contextmanager
def working_folder(cache: pathlib.Path, doing: Doing) -> Iterator[pathlib.Path]:
    """A folder that is removed in the end; a finished image is renamed out of it."""
    for left in cache.glob("work.*"):  # left by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix="work.", dir=cache))
    try:
        yield work
    except OSError as error:
        raise Problem(f"the image could not be made: {error}",
                      f"look after the file system of {cache}", 125) from error
    finally:
        doing("cleaning up")
        shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def locked(cache: pathlib.Path, doing: Doing) -> Iterator[None]:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = (cache / "lock").open("w")
    except OSError as error:
        raise Problem(f"the cache folder cannot be written: {error}",
                      "set DAPL_VM_CACHE to a folder that can") from error
    with lock:
        doing("waiting for another --prepare")
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# ---------------------------------------------------------------------------------------------
# Packages
# ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Packages:
    """The packages that apt knows, of this system or, by options, of another suite."""

    options: tuple[str, ...]
    newer: bool  # the programs in them need a newer C library than this system's

    def record(self, package: str) -> str:
        try:
            answer = subprocess.run(
                ["apt-cache", *self.options, "show", "--no-all-versions", package],
                capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise Problem("apt-cache is missing: the guest's kernel comes from Debian",
                          "prepare on a Debian system, and copy its cache folder") from error
        if answer.returncode != 0 or not answer.stdout.strip():
            raise Problem(f"apt knows no package {package}",
                          "run apt-get update as root, and see whether its sources are Debian's")
        return answer.stdout

    def field(self, package: str, name: str) -> str:
        return re.search(rf"^{name}: (.*)", self.record(package), re.M)[1]

    def newest_release(self) -> str:
        found = re.search(r"\blinux-image-(\d[^\s,]*)", self.field("linux-image-amd64", "Depends"))
        if not found:
            raise Problem("apt does not say which kernel linux-image-amd64 is",
                          "name one by --kernel")
        return found[1]

    def depends(self, package: str, pattern: str) -> list[str]:
        """The packages that this one depends on and whose names match, of the version that it needs.

        A package that may be newer has no version: a mirror may have no other any more.
        """
        found = []
        for each in self.field(package, "Depends").split(","):
            name, _, relation = each.strip().partition(" ")
            exact = re.match(r"\(= ([^)]+)\)", relation)
            if re.fullmatch(pattern, name):
                found.append(f"{name}={exact[1]}" if exact else name)
        return found

    def of_kernel(self, release: str) -> list[str]:
        """All packages that are needed; newer kernels are packaged in parts."""
        image = f"linux-image-{release}"
        version = self.field(image, "Version")
        image, headers = f"{image}={version}", f"linux-headers-{release}={version}"
        parts = self.depends(image, rf"linux-(base|binary|modules)-{re.escape(release)}")
        common = self.depends(headers, r"linux-(headers-\S+-common|kbuild-\S+)")
        source = f"linux-source-{re.match(r'[0-9]+[.][0-9]+', release)[0]}={version}"
        libraries = []
        if self.newer:
            kbuild = next(name for name in common if "kbuild" in name)
            libraries = [*self.depends(kbuild, r"(lib|zlib)\S+"), "libzstd1"]
        return [image, *parts, headers, *common, source, *libraries, "busybox-static"]

    def fetch(self, packages: list[str], into: pathlib.Path, doing: Doing) -> None:
        size = sum(int(self.field(package, "Size")) for package in packages)
        doing(f"fetching {size >> 20} MB of Debian packages")
        run(["apt-get", *self.options, "-o", "APT::Sandbox::User=", "download", *packages], into,
            Problem("the kernel's packages could not be fetched",
                    "check the network; if apt's lists are old, run apt-get update as root"))


def lists_of(suite: str, work: pathlib.Path) -> tuple[str, ...]:
    """Fetch the lists of a suite. Returns the options that make apt look at these lists alone."""
    folder = work / "apt"
    (folder / "lists/partial").mkdir(parents=True)
    (folder / "cache/archives/partial").mkdir(parents=True)
    (folder / "sources.list").write_text(f"deb [signed-by={KEYS}] {MIRROR} {suite} main\n")
    settings = {
        "APT::Architecture": "amd64", "APT::Sandbox::User": "", "Acquire::Languages": "none",
        "Dir::State": folder, "Dir::State::status": "/dev/null", "Dir::Cache": folder / "cache",
        "Dir::Etc::sourcelist": folder / "sources.list", "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null", "Dir::Etc::preferences": "/dev/null",
        "APT::Update::Error-Mode": "any",
    }
    options = tuple(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))
    run(["apt-get", *options, "update"], work,
        Problem(f"the lists of Debian's suite {suite} could not be fetched",
                "check the name and the network; a suite with newer keys needs a newer "
                "debian-archive-keyring"))
    return options


# ---------------------------------------------------------------------------------------------
# Building
# ---------------------------------------------------------------------------------------------


def require_builders() -> None:
    programs = {"apt-get": "apt", "dpkg-deb": "dpkg", "make": "make", "gcc": "gcc"}
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        raise Problem(f"{', '.join(missing)} is missing, which preparing needs",
                      "on Debian: apt-get install " + " ".join(programs[name] for name in missing))


def build(work: pathlib.Path, packages: Packages, release: str, doing: Doing) -> pathlib.Path:
    """Everything from packages to a folder with a kernel and an initramfs."""
    debs, root = work / "debs", work / "root"
    for folder in (debs, root, work / "image"):
        folder.mkdir(parents=True)
    packages.fetch(packages.of_kernel(release), debs, doing)
    broken = Problem("the kernel's packages could not be unpacked", "is the disk full?", 125)
    for deb in debs.iterdir():
        if not deb.name.startswith("linux-source"):
            doing(f"unpacking {deb.name}")
            run(["dpkg-deb", "-x", str(deb), str(root)], work, broken)
    doing("unpacking the source of siw")
    unpack_siw(next(debs.glob("linux-source-*.deb")), work / "siw")
    doing("compiling siw")
    compile_siw(root, work / "siw", release, packages.newer)

    doing("writing the initramfs")
    modules = load_order(first_of(root, f"lib/modules/{release}", f"usr/lib/modules/{release}"),
                         work / "siw/siw.ko")
    busybox = first_of(root, "bin/busybox", "usr/bin/busybox")
    (work / "image/initramfs").write_bytes(archive(contents(busybox, modules)))
    shutil.copy(first_of(root, f"boot/vmlinuz-{release}", f"usr/lib/modules/{release}/vmlinuz"),
                work / "image/vmlinuz")
    return work / "image"


def first_of(root: pathlib.Path, *places: str) -> pathlib.Path:
    for place in places:
        if (root / place).exists():
            return root / place
    raise Problem(f"the kernel's packages have no {' or '.join(places)}", "try another --kernel",
                  125)


def run(command: list[str], folder: pathlib.Path, problem: Problem) -> None:
    """Run a command; show the end of its output if it fails. Kill all its children at the end."""
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace",
                          start_new_session=True) as process:
        try:
            output = process.communicate()[0]
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode != 0:
        print("\n".join(output.splitlines()[-20:]), file=sys.stderr)
        raise problem


def unpack_siw(deb: pathlib.Path, into: pathlib.Path) -> None:
    """The driver's folder, out of the archive in the package; the rest is not unpacked."""
    into.mkdir()
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)],
                          stdout=subprocess.PIPE) as package:
        outer = tarfile.open(fileobj=package.stdout, mode="r|")
        sources = next(member for member in outer if member.name.endswith(".tar.xz"))
        inner = tarfile.open(fileobj=outer.extractfile(sources), mode="r|xz")
        for member in inner:
            folder, _, name = member.name.rpartition("/")
            if folder.endswith("/drivers/infiniband/sw/siw") and member.isfile():
                (into / name).write_bytes(inner.extractfile(member).read())
            elif any(into.iterdir()):  # they follow one another
                break
        package.kill()


def compile_siw(root: pathlib.Path, siw: pathlib.Path, release: str, newer: bool) -> None:
    """Debian ships no siw, so it is built against headers outside their usual place."""
    headers = root / "usr/src" / f"linux-headers-{release}"
    makefile = headers / "Makefile"
    makefile.write_text(re.sub(r"(?<=[ =])/usr/", f"{root}/usr/", makefile.read_text()))
    variables = ["CONFIG_RDMA_SIW=m",
                 "CONFIG_DEBUG_INFO_BTF_MODULES="]  # needs pahole, and serves tracing only
    if newer:  # the headers were made for a newer compiler and C library than this system's
        wrap_programs(root, next((root / "usr/lib").glob("linux-kbuild-*")))
        variables += ["CC=gcc", "KCFLAGS=-Wno-attributes", "CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT="]
    run(["make", "-C", str(headers), f"M={siw}", *variables, "modules"], siw,
        Problem("siw could not be compiled", "the end of make's output is above", 125))
    run(["strip", "--strip-debug", str(siw / "siw.ko")], siw,
        Problem("strip failed on siw.ko", "its output is above", 125))


def wrap_programs(root: pathlib.Path, folder: pathlib.Path) -> None:
    """Replace each program by a script that runs it with the libraries of its own system."""
    for path in [*folder.rglob("*")]:
        if path.is_symlink() or not path.is_file() or path.read_bytes()[:4] != b"\x7fELF":
            continue
        program = path.rename(path.with_name(f"{path.name}.program"))
        path.write_text(f'#!/bin/sh\nexec "{root}/{LOADER}" --argv0 "$0" --library-path '
                        f'"{root}/usr/lib/x86_64-linux-gnu" "{program}" "$@"\n')
        path.chmod(0o755)


def load_order(folder: pathlib.Path, siw: pathlib.Path) -> dict[str, bytes]:
    """The modules and their dependencies, which come first."""
    files = {module_name(path): path for path in folder.rglob("*.ko*")} | {"siw": siw}
    builtin = {module_name(pathlib.Path(line))
               for line in (folder / "modules.builtin").read_text().splitlines()}
    ordered: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in ordered or name in builtin:
            return
        if name not in files:
            if name in OF_OLD_KERNELS:
                return
            raise Problem(f"the kernel has no module {name}", "try another --kernel", 125)
        module = read_module(files[name])
        depends = re.search(rb"\0depends=([^\0]*)\0", module)
        for needed in depends[1].decode().split(",") if depends else ():
            if needed:
                add(needed.replace("-", "_"))
        ordered[name] = module

    for name in MODULES:
        add(name)
    return ordered


def module_name(path: pathlib.Path) -> str:
    return path.name.split(".")[0].replace("-", "_")


def read_module(path: pathlib.Path) -> bytes:
    return lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()


# ---------------------------------------------------------------------------------------------
# The initramfs
# ---------------------------------------------------------------------------------------------

Entry = tuple[str, int, bytes]  # path, mode, content


def contents(busybox: pathlib.Path, modules: dict[str, bytes]) -> Iterator[Entry]:
    yield "bin", DIRECTORY, b""
    yield "bin/busybox", EXECUTABLE, busybox.read_bytes()
    yield "modules", DIRECTORY, b""
    for name, module in modules.items():
        yield f"modules/{name}.ko", FILE, module
    lines = (f"{name}.ko {PARAMETERS.get(name, '')}".strip() + "\n" for name in modules)
    yield "modules/order", FILE, "".join(lines).encode()


def archive(entries: Iterable[Entry]) -> bytes:
    """A cpio archive as the kernel unpacks it ('newc'). Archives may follow one another."""
    whole = bytearray()
    for number, (path, mode, content) in enumerate((*entries, ("TRAILER!!!", 0, b"")), 1):
        name = path.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
        whole += b"070701" + b"".join(b"%08X" % field for field in fields) + name
        whole += bytes(-len(whole) % 4) + content
        whole += bytes(-len(whole) % 4)
    return bytes(whole)
