# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The guest's boot image: a stock Debian kernel and the modules it needs, built once and cached.

Packages are fetched and unpacked below the cache folder; nothing is installed. A finished image is
a folder named after the kernel release and this file's contents, so an image that another edition
made does not count. It appears by a rename, so a half-done image does not count either.
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
    "crc32c_generic", "crc32c_intel", "crc32_generic", "crc32_pclmul",  # rxe and siw ask by name
    "dummy", "ib_uverbs", "rdma_ucm", "rdma_rxe", "siw",
)
PARAMETERS = {"dummy": "numdummies=0"}  # keeps it from making a dummy0 of its own

DIRECTORY, EXECUTABLE, FILE = 0o040755, 0o100755, 0o100644
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


def find(cache: pathlib.Path, release: str | None) -> Image:
    """The image of this kernel release, or the image prepared last without a release."""
    folder = cache / f"{release or 'default'}-{HASH}"
    if folder.is_dir():
        return Image(folder.resolve())
    kernel = f" --kernel {release}" if release else ""
    raise Problem(f"the guest's kernel is not prepared, or by another edition of this ({cache})",
                  f"run: {sys.argv[0]} --prepare{kernel}  (fetches 225 MB, takes about a minute)")


def prepare(cache: pathlib.Path, release: str | None, doing: Doing) -> Image:
    """Make the image if it is not there; one process at a time."""
    with locked(cache, doing):
        chosen = release or newest_release()
        folder = cache / f"{chosen}-{HASH}"
        if not folder.is_dir():
            require_builders()
            make(folder, chosen, doing)
        if not release:
            link = cache / "default.new"
            link.unlink(missing_ok=True)
            link.symlink_to(folder.name)
            link.replace(cache / f"default-{HASH}")
        return Image(folder)


def make(folder: pathlib.Path, release: str, doing: Doing) -> None:
    """The folder of an image; renamed into place when complete."""
    for left in folder.parent.glob("work.*"):  # left by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix="work.", dir=folder.parent))
    try:
        build(work, release, doing).rename(folder)
    except OSError as error:
        raise Problem(f"the image could not be made: {error}",
                      f"look after the file system of {folder.parent}", 125) from error
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
                      "set DAPL_VM_CACHE to one that can") from error
    with lock:
        doing("waiting for another --prepare")
        fcntl.flock(lock, fcntl.LOCK_EX)
        doing("asking apt for the kernel")
        yield


# ---------------------------------------------------------------------------------------------
# Building
# ---------------------------------------------------------------------------------------------


def require_builders() -> None:
    programs = {"apt-get": "apt", "dpkg-deb": "dpkg", "make": "make", "gcc": "gcc"}
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        raise Problem(f"{', '.join(missing)} is missing, which preparing needs",
                      "on Debian: apt-get install " + " ".join(programs[name] for name in missing))


def newest_release() -> str:
    found = re.search(r"^Depends:.*\blinux-image-(\d[^\s,]*)",
                      apt_record("linux-image-amd64"), re.M)
    if not found:
        raise Problem("apt does not say which kernel linux-image-amd64 is", "name one by --kernel")
    return found[1]


def apt_record(package: str) -> str:
    try:
        answer = subprocess.run(["apt-cache", "show", "--no-all-versions", package],
                                capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Problem("apt-cache is missing: the guest's kernel comes from Debian",
                      "prepare on a Debian system, and copy its cache folder") from error
    if answer.returncode != 0:
        raise Problem(f"apt knows no package {package}",
                      "run apt-get update as root, and see whether its sources are Debian's")
    return answer.stdout


def build(work: pathlib.Path, release: str, doing: Doing) -> pathlib.Path:
    """Everything from packages to a folder with a kernel and an initramfs."""
    image, headers = f"linux-image-{release}", f"linux-headers-{release}"
    version = re.search(r"^Version: (.*)", apt_record(image), re.M)[1]
    series = re.match(r"\d+\.\d+", release)[0]
    common = re.findall(r"linux-(?:headers-\S+-common|kbuild-[^\s,]+)",
                        re.search(r"^Depends: (.*)", apt_record(headers), re.M)[1])
    source = f"linux-source-{series}"
    packages = [f"{name}={version}" for name in (image, headers, *common, source)]
    debs, root = work / "debs", work / "root"
    for folder in (debs, root, work / "image"):
        folder.mkdir(parents=True)

    doing("fetching 225 MB of Debian packages")
    run(["apt-get", "-o", "APT::Sandbox::User=", "download", *packages, "busybox-static"], debs,
        Problem("the kernel's packages could not be fetched",
                "check the network; if apt's lists are old, run apt-get update as root"))
    broken = Problem("the kernel's packages could not be unpacked", "is the disk full?", 125)
    for deb in debs.iterdir():
        if not deb.name.startswith("linux-source"):
            doing(f"unpacking {deb.name}")
            run(["dpkg-deb", "-x", str(deb), str(root)], work, broken)
    doing("unpacking the source of siw")
    unpack_siw(next(debs.glob("linux-source-*.deb")), work / "siw")
    doing("compiling siw")
    compile_siw(root, work / "siw", release)

    doing("writing the initramfs")
    modules = load_order(root / "lib/modules" / release, work / "siw/siw.ko")
    busybox = next(path for path in (root / "bin/busybox", root / "usr/bin/busybox")
                   if path.is_file())
    (work / "image/initramfs").write_bytes(archive(contents(busybox, modules)))
    shutil.copy(root / "boot" / f"vmlinuz-{release}", work / "image/vmlinuz")
    return work / "image"


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


def compile_siw(root: pathlib.Path, siw: pathlib.Path, release: str) -> None:
    """Debian ships no siw, so it is built against headers outside their usual place."""
    headers = root / "usr/src" / f"linux-headers-{release}"
    makefile = headers / "Makefile"
    makefile.write_text(makefile.read_text().replace("include /usr", f"include {root}/usr"))
    run(["make", "-C", str(headers), f"M={siw}", "CONFIG_RDMA_SIW=m",
         "CONFIG_DEBUG_INFO_BTF_MODULES=",  # needs pahole, and serves tracing only
         "modules"], siw, Problem("siw could not be compiled", "the end of make's output is above",
                                  125))
    run(["strip", "--strip-debug", str(siw / "siw.ko")], siw,
        Problem("strip failed on siw.ko", "its output is above", 125))


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
