#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Hold the include directions of the source tree, and its license lines.

Arrows of #include point downwards only:

    dat/          the public headers, osd, itself; nothing of common/ or transports/
    contract/     the public headers, osd, itself: what the common layer and ports both include
    common/       contract/, the public headers, osd, itself; no port by name. It has two rooms:
      common/core/  the objects; it sees the port's port.hpp too
      common/calls/ the DAT calls; it sees headers of core/ by their path
    port_support/ contract/, the public headers, osd, itself; no device library
    transports/x  contract/, port_support, the public headers, osd, itself
      transports/soft/engine/  osd and itself; each of its rooms sees those below it, by their path
    am/src/       am/include, the public headers, osd, itself; PMIx and the operating system
    include/      itself
    osd/          itself and, as native_*.hpp, the folder of each system
    osd/<os>/     itself and osd/; the only place for headers of the operating system beside
                  port_support and the ports. Each system has the same files.

In am/src/, common/, contract/, dat/, osd/, port_support/ and each port there is no circle of units; a unit is all
files of one name. No folder of the libraries and programs has more than 58 source files, and none of the
engine more than 40.

What differs by operating system is in different files: the preprocessor asks for the system in the
files of one system, in the public headers, whose form other people's programs fix, and nowhere else.

Every source file says under which license it comes, in its first lines: the project's, or in the
folder of a port its owner's.
"""

import argparse
import collections
import dataclasses
import pathlib
import re
import sys
import tempfile

SOURCES = {".c", ".cpp", ".h", ".hpp"}
LICENSED = SOURCES | {".py", ".toml", ".in", ".j2", ".map", ".sh"}
LICENSED_NAMES = {"meson.build", "meson_options.txt"}
# Written by the build, from the port.toml of a port, or by the port itself.
FROM_THE_PORT = {"port.hpp"}
# Written by the build, from a table in gen/; it includes the public headers only.
FROM_A_TABLE = {"dat_names.hpp"}
# Written by the build, from the contract, for what wraps a port.
FROM_THE_CONTRACT = {"wrapped_names.hpp", "own_names.hpp", "wrapped_upcalls.hpp",
                     "trace_operations.hpp"}
CORE_FROM_THE_CONTRACT = {"dapls_ib_check.hpp"}  # included by common/core/
CALLS_FROM_A_TABLE = {"dat_calls.hpp"}  # included by common/calls/
UNITS = ("am/src", "common", "contract", "dat", "osd", "port_support", "transports/*")
CIRCLES = {("native_futex", "osd_sync")}  # permitted by design: the futex of a system, and the
                                          # objects that wait on it
ENGINE = "transports/soft/engine"
ENGINE_ROOMS = ("wire", "net", "interface", "seal", "window", "thread", "queue", "memory", "direct",
                "handshake", "connection", "device")  # from the bottom up
# The headers of libfabric 1.17 declare these names without a warning, those of 2.0 with one.
DEPRECATED_BY_LIBFABRIC_2 = ("FI_LOCAL_MR", "FI_MR_BASIC", "FI_MR_SCALABLE", "FI_MR_UNSPEC",
                             "FI_ORDER_DATA", "FI_ORDER_NONE", "FI_ORDER_STRICT", "FI_REG_MR")
PRODUCT = ("am", "bench", "common", "conformance", "contract", "dat", "include", "osd",
           "port_support", "tools", "transports")
# By which compilers say for what system they compile.
SYSTEM_MACROS = ("_WIN32", "_WIN64", "WIN32", "__WIN32__", "__CYGWIN__", "__MINGW32__", "__MINGW64__",
                 "_MSC_VER", "__linux__", "__linux", "__unix__", "__unix", "__APPLE__", "__MACH__",
                 "__FreeBSD__", "__NetBSD__", "__OpenBSD__", "__DragonFly__", "__sun", "__ANDROID__")
# The room tests/windows has programs for both.
OF_ONE_SYSTEM = re.compile(r"(?<!^tests)/(?:linux|windows)/|/net(?:_\w+)?_(?:linux|windows)\.cpp$")
MOST_FILES = 58
MOST_FILES_OF_THE_ENGINE = 40
SPDX = "SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause"
SPDX_LINES = 2  # a #! line may come first
SPDX_OF_A_PORT = "SPDX-License-Identifier: "  # a port is whose it is

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(?:"([^"]+)"|<([^>]+)>)', re.M)
# A device library belongs to one port, and port_support is for all of them.
DEVICE_LIBRARY = re.compile(r"^(?:rdma|infiniband|ucp|ucs|uct)/")
STANDARD = re.compile(r"^[a-z_]+$")  # <atomic>, <cstdint>


@dataclasses.dataclass(frozen=True)
class Include:
    line: int
    name: str
    quoted: bool


@dataclasses.dataclass(frozen=True)
class Finding:
    path: pathlib.PurePath
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def without_comments(text: str) -> str:
    """Comments blanked out, line numbers kept. Includes never hide in strings."""
    return re.sub(
        r'//[^\n]*|/\*.*?\*/',
        lambda found: re.sub(r"[^\n]", " ", found.group()),
        text,
        flags=re.S,
    )


def includes_of(text: str) -> list[Include]:
    clean = without_comments(text)
    return [
        Include(clean.count("\n", 0, found.start()) + 1, found[1] or found[2], bool(found[1]))
        for found in INCLUDE.finditer(clean)
    ]


def is_standard(name: str) -> bool:
    return bool(STANDARD.match(name))


def is_public(name: str) -> bool:
    return name.startswith(("dat/", "dat2/"))


def is_osd(name: str) -> bool:
    return re.fullmatch(r"osd_\w+\.hpp", name) is not None


class Tree:
    """The header names of each folder, and the headers that it may include."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.contract = self.headers("contract")
        self.common = self.headers("common")
        self.rooms = {room: self.headers(f"common/{room}") for room in ("core", "calls")}
        self.dat = self.headers("dat")
        self.port_support = self.headers_by_path("port_support")
        transports = root / "transports"
        self.ports = sorted(p.name for p in transports.iterdir() if p.is_dir()) if (
            transports.is_dir()) else []

    def headers(self, folder: str) -> set[str]:
        where = self.root / folder
        return {p.name for p in where.rglob("*.h*")} if where.is_dir() else set()

    def headers_by_path(self, folder: str) -> set[str]:
        """The names of headers, and their names with the folder that they are in."""
        where = self.root / folder
        paths = list(where.rglob("*.h*")) if where.is_dir() else []
        return {p.name for p in paths} | {f"{p.parent.name}/{p.name}" for p in paths}

    def folders(self, pattern: str) -> list[str]:
        return sorted(str(path.relative_to(self.root)) for path in self.root.glob(pattern)
                      if path.is_dir())

    def files(self, folder: str, suffixes: set[str] = SOURCES) -> list[pathlib.Path]:
        where = self.root / folder
        if not where.is_dir():
            return []
        return sorted(p for p in where.rglob("*") if p.is_file() and p.suffix in suffixes)

    # Each function answers why an include is wrong, or None.

    def wrong_in_contract(self, include: Include) -> str | None:
        name = include.name
        if name in self.contract or is_public(name) or is_osd(name):
            return None
        if not include.quoted and is_standard(name):
            return None
        return f"contract/ includes {name}, which is neither its own nor osd's"

    def wrong_in_common(self, room: str, include: Include) -> str | None:
        name = include.name
        if is_public(name) or is_osd(name) or name in self.contract | FROM_A_TABLE:
            return None
        if not include.quoted:
            return None if is_standard(name) else (
                f"common/ includes <{name}>: the operating system is osd's business")
        if room == "core" and name in self.rooms["core"] | FROM_THE_PORT | CORE_FROM_THE_CONTRACT:
            return None
        if room == "calls" and name in self.rooms["calls"] | CALLS_FROM_A_TABLE | {
                f"core/{each}" for each in self.rooms["core"]}:
            return None
        where = f"common/{room}/" if room else "common/"
        return f'{where} includes "{name}", which is not of a room that it may see'

    def wrong_in_dat(self, include: Include) -> str | None:
        name = include.name
        if not include.quoted:
            if is_standard(name) or is_public(name):
                return None
            return f"dat/ includes <{name}>: the operating system is osd's business"
        if name in self.dat or is_osd(name) or is_public(name):
            return None
        if name in self.common | self.contract or name.startswith(("../", "common/", "transports/")):
            return f'dat/ includes "{name}", which is not below it'
        return None  # written by the build

    def wrong_in_port_support(self, include: Include) -> str | None:
        name = include.name
        if not include.quoted:
            if DEVICE_LIBRARY.match(name):
                return f"port_support/ includes <{name}>: a device library is a port's own affair"
            return None
        if (name in self.contract | FROM_A_TABLE | FROM_THE_CONTRACT | self.port_support
                or is_osd(name) or is_public(name)):
            return None
        return f'port_support/ includes "{name}", which is neither its own, the contract\'s nor osd\'s'

    def wrong_in_port(self, include: Include, own: set[str]) -> str | None:
        name = include.name
        if not include.quoted:
            return None  # its device library and its operating system are a port's own affair
        if (name in self.contract | FROM_A_TABLE | self.port_support or is_osd(name)
                or is_public(name)):
            return None
        if name in own:
            return None
        if "/" in name:
            return f'a port includes "{name}": it sees the contract, osd and itself'
        return f'a port includes "{name}", which is neither its own, the contract\'s nor osd\'s'

    def wrong_in_engine(self, room: str, include: Include) -> str | None:
        if not include.quoted or is_osd(include.name):
            return None
        named = pathlib.PurePath(include.name)
        there = named.parts[0] if len(named.parts) > 1 else room
        if room not in ENGINE_ROOMS or there not in ENGINE_ROOMS:
            return f'"{include.name}": {room}/ or {there}/ is no room of the engine'
        below = ENGINE_ROOMS[:ENGINE_ROOMS.index(room)]
        is_seen = there in below or (there == room and len(named.parts) == 1)
        if is_seen and named.name in self.headers(f"{ENGINE}/{there}"):
            return None
        return f'{room}/ of the engine includes "{include.name}", which is not of a room below it'

    def wrong_in_osd(self, include: Include, own: set[str]) -> str | None:
        if not include.quoted or include.name in own:
            return None
        return f'osd/ includes "{include.name}", which is above it'

    def wrong_in_am(self, include: Include, own: set[str]) -> str | None:
        name = include.name
        if not include.quoted or name in own or is_osd(name) or is_public(name):
            return None
        return f'am/ includes "{name}", which is neither its own nor osd\'s'

    def wrong_in_public(self, include: Include) -> str | None:
        name = include.name
        if is_public(name) or (not include.quoted and (is_standard(name) or "/" not in name)):
            return None
        if not include.quoted and name.startswith(("sys/", "netinet/")):
            return None  # what the ABI itself is made of: sockaddr
        return f"include/ includes {name}: a public header stands alone"


def check_folder(tree: Tree, folder: str, wrong) -> list[Finding]:
    findings = []
    for path in tree.files(folder):
        for include in includes_of(path.read_text()):
            text = wrong(include)
            if text is not None:
                findings.append(Finding(path.relative_to(tree.root), include.line, text))
    return findings


def check_common(tree: Tree) -> list[Finding]:
    findings = []
    for path in tree.files("common"):
        where = path.relative_to(tree.root)
        room = where.parts[1] if len(where.parts) > 2 else ""
        for include in includes_of(path.read_text()):
            text = tree.wrong_in_common(room, include)
            if text is not None:
                findings.append(Finding(where, include.line, text))
    return findings


def check_engine(tree: Tree) -> list[Finding]:
    findings = []
    for path in tree.files(ENGINE):
        where = path.relative_to(tree.root)
        for include in includes_of(path.read_text()):
            text = tree.wrong_in_engine(where.parent.name, include)
            if text is not None:
                findings.append(Finding(where, include.line, text))
    return findings


def check_crowds(tree: Tree) -> list[Finding]:
    """A reader finds his way in a folder that is no larger."""
    findings = []
    for room in PRODUCT:
        counts = collections.Counter(path.parent for path in tree.files(room))
        for folder, count in sorted(counts.items()):
            where = folder.relative_to(tree.root)
            most = MOST_FILES_OF_THE_ENGINE if where.is_relative_to(ENGINE) else MOST_FILES
            if count > most:
                findings.append(Finding(where, 1, f"{count} source files; at most {most} are right"))
    return findings


def units_of(tree: Tree, folder: str) -> dict[str, set[str]]:
    """Each unit of a folder, and the units that it includes."""
    units: dict[str, set[str]] = {}
    for path in tree.files(folder):
        units.setdefault(path.stem, set())
    for path in tree.files(folder):
        names = {pathlib.PurePath(include.name).stem for include in includes_of(path.read_text())
                 if include.quoted}  # a unit may have the name of a standard header
        units[path.stem] |= (names & units.keys()) - {path.stem}
    return units


def circles_of(units: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """The groups of units that include one another, directly or not."""
    reached: dict[str, set[str]] = {}
    for unit in units:
        found: set[str] = set()
        todo = [unit]
        while todo:
            new = units[todo.pop()] - found
            found |= new
            todo += new
        reached[unit] = found
    groups = {tuple(sorted(other for other in units
                           if other in reached[unit] and unit in reached[other]))
              for unit in units if unit in reached[unit]}
    return sorted(groups)


def check_circles(tree: Tree) -> list[Finding]:
    return [Finding(pathlib.PurePath(folder), 1, f"a circle of units: {', '.join(circle)}")
            for pattern in UNITS
            for folder in tree.folders(pattern)
            for circle in circles_of(units_of(tree, folder)) if circle not in CIRCLES]


def check_port_names(tree: Tree) -> list[Finding]:
    """common/ and contract/ name no port: neither its namespace nor its folder."""
    findings = []
    if not tree.ports:
        return findings
    pattern = re.compile(r"\b(?:dapl::|transports/)(" + "|".join(tree.ports) + r")\b")
    for path in tree.files("common") + tree.files("contract"):
        where = path.relative_to(tree.root)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = pattern.search(line)
            if found:
                findings.append(Finding(where, number,
                                        f"{where.parts[0]}/ names the port {found[1]}"))
    return findings


def check_libfabric_names(tree: Tree) -> list[Finding]:
    """No source uses a name that the headers of libfabric 2 deprecate: it compiles without a
    warning with 1.17 only.
    """
    pattern = re.compile(r"\b(" + "|".join(DEPRECATED_BY_LIBFABRIC_2) + r")\b")
    return [Finding(path.relative_to(tree.root), number, f"libfabric 2 deprecates {name}")
            for folder in ("transports", "bench", "tests")
            for path in tree.files(folder)
            for number, line in enumerate(path.read_text().splitlines(), 1)
            for name in pattern.findall(line)]


def check_includes(tree: Tree) -> list[Finding]:
    findings = check_folder(tree, "contract", tree.wrong_in_contract) + check_common(tree)
    findings += check_folder(tree, "dat", tree.wrong_in_dat)
    findings += check_folder(tree, "include", tree.wrong_in_public)
    findings += check_folder(tree, "port_support", tree.wrong_in_port_support)
    for port in tree.ports:
        own = tree.headers_by_path(f"transports/{port}")
        findings += check_folder(
            tree, f"transports/{port}", lambda i, own=own: tree.wrong_in_port(i, own))
    of_am = tree.headers("am")
    findings += check_folder(tree, "am", lambda i: tree.wrong_in_am(i, of_am))
    own = tree.headers("osd")
    findings += check_folder(tree, "osd", lambda i: tree.wrong_in_osd(i, own))
    findings += check_engine(tree) + check_crowds(tree)
    return findings + check_systems(tree) + check_port_names(tree) + check_circles(tree) + \
        check_libfabric_names(tree) + check_system_macros(tree)


def check_system_macros(tree: Tree) -> list[Finding]:
    """The preprocessor asks for the system in files of one system only, and in public headers."""
    asks = re.compile(r"^\s*#\s*(?:if|ifdef|ifndef|elif|elifdef|elifndef)\b.*\b(" +
                      "|".join(SYSTEM_MACROS) + r")\b", re.MULTILINE)
    findings = []
    for path in sorted(tree.root.rglob("*")):
        where = path.relative_to(tree.root)
        if path.suffix not in SOURCES | {".j2"} or is_built(where) or not path.is_file() or \
                where.parts[0] == "include" or OF_ONE_SYSTEM.search(where.as_posix()):
            continue
        text = path.read_text(errors="replace")
        findings += [Finding(where, text.count("\n", 0, found.start(1)) + 1,
                             f"{found[1]}: what differs by system is in different files")
                     for found in asks.finditer(text)]
    return findings


def check_systems(tree: Tree) -> list[Finding]:
    """Each system has all files that any system has; the headers of the contract are for all of
    them.
    """
    folders = [path for path in sorted((tree.root / "osd").glob("*/")) if path.is_dir()]
    names = {folder: {path.name for path in folder.iterdir() if path.suffix in SOURCES}
             for folder in folders}
    every = set().union(*names.values())
    findings = [Finding((folder / name).relative_to(tree.root), 1, "another system has this file")
                for folder in folders for name in sorted(every - names[folder])]
    for path in sorted((tree.root / "osd").glob("*.?pp")):
        for include in includes_of(path.read_text()):
            if not include.quoted and not is_standard(include.name):
                findings.append(Finding(path.relative_to(tree.root), include.line,
                                        f"the contract includes <{include.name}>"))
    return findings


def is_built(path: pathlib.PurePath) -> bool:
    """Whether a file is a build's or hidden, so that it is no source."""
    return any(part.startswith((".", "build")) or part == "__pycache__" for part in path.parts)


def check_licenses(tree: Tree) -> list[Finding]:
    findings = []
    for path in sorted(tree.root.rglob("*")):
        where = path.relative_to(tree.root)
        wanted = path.suffix in LICENSED or path.name in LICENSED_NAMES
        if not wanted or is_built(where) or not path.is_file():
            continue
        first = path.read_text(errors="replace").splitlines()[:SPDX_LINES]
        line_of = SPDX_OF_A_PORT if where.parts[0] == "transports" and len(where.parts) > 2 else SPDX
        if not any(line_of in line for line in first):
            findings.append(Finding(where, 1, "no SPDX line at the top"))
    return findings


def check(root: pathlib.Path) -> list[Finding]:
    tree = Tree(root)
    return check_includes(tree) + check_licenses(tree)


# ------------------------------------------------------------------------------- self-test

GOOD = {
    "include/dat2/udat.h": "#include <stdint.h>\n#include <dat2/dat.h>",
    "include/dat2/dat.h": "#include <sys/socket.h>",
    "osd/osd_sync.hpp": '#include "native_mutex.hpp"\n#include <atomic>',
    "osd/linux/native_mutex.hpp": "#include <pthread.h>",
    "osd/linux/osd_thread.cpp": '#include "osd_sync.hpp"\n#include <unistd.h>',
    "osd/windows/native_mutex.hpp": "#include <windows.h>\n#ifdef _WIN64\n#endif",
    "osd/windows/osd_thread.cpp": '#include "osd_sync.hpp"',
    "contract/dapls_ib.hpp": '#include "osd_sync.hpp"\n#include <dat2/udat.h>',
    "common/core/evd.hpp": '#include "dapls_ib.hpp"\n#include "dat_names.hpp"\n#include <cstdint>',
    "common/core/evd.cpp": '#include "evd.hpp"',
    "common/core/transport.hpp":
        '#include "port.hpp"\n// #include <unistd.h>\n/*\n#include "x"\n*/',
    "common/calls/calls.hpp": '#include "core/transport.hpp"',
    "common/calls/evd_calls.cpp": '#include "calls.hpp"\n#include "core/evd.hpp"',
    "contract/port_features.hpp": "#include DAPL_PORT_FEATURES",
    "dat/ia.cpp": '#include "ia.hpp"\n#include "osd_sync.hpp"\n#include "made_by_the_build.hpp"',
    "dat/ia.hpp": "#include <dat2/udat.h>\n#include <mutex>",
    "port_support/gate.hpp": '#include "dapls_ib.hpp"\n#include "osd_sync.hpp"\n#include <poll.h>',
    "transports/soft/port.hpp": '#include "dapls_ib.hpp"\n#include "wire.hpp"\n#include <poll.h>\n'
                                '#include "gate.hpp"',
    "transports/soft/wire.hpp": '#include "osd_sync.hpp"',
    f"{ENGINE}/wire/serial.hpp": "#include <cstdint>",
    f"{ENGINE}/net/net.hpp": '#include "osd_sync.hpp"\n#include "wire/serial.hpp"',
    f"{ENGINE}/net/net_linux.cpp": '#include "net.hpp"\n#include <sys/socket.h>',
    "transports/soft/hca.cpp": '#include "net/net.hpp"',
    "am/include/dapl_am.h": "#include <stdint.h>",
    "am/src/links.hpp": '#include "dapl_am.h"\n#include "osd_sync.hpp"\n#include <dat2/udat.h>',
    "am/src/job.cpp": '#include "links.hpp"\n#include <pmix.h>\n#include <unistd.h>',
}

BAD = {  # path: text, and a part of the finding
    "common/core/evd.cpp": ("#include <unistd.h>", "common/ includes <unistd.h>"),
    "common/core/cno.cpp": ("#include <sys/epoll.h>", "common/ includes <sys/epoll.h>"),
    "common/core/pz.cpp": ('  #  include "wire.hpp"', 'common/core/ includes "wire.hpp"'),
    "common/core/lmr.cpp": ('#include "calls.hpp"', 'common/core/ includes "calls.hpp"'),
    "common/calls/pz.cpp": ('#include "evd.hpp"', 'common/calls/ includes "evd.hpp"'),
    "common/up.hpp": ('#include "core/evd.hpp"', 'common/ includes "core/evd.hpp"'),
    "contract/dapl_spin.hpp": ('#include "evd.hpp"', "contract/ includes evd.hpp"),
    "contract/dapl_debug.cpp": ("#include <unistd.h>", "contract/ includes unistd.h"),
    "contract/dapl_status.hpp": ("namespace dapl::soft {}", "contract/ names the port soft"),
    "common/core/ep.cpp": ("namespace dapl::soft {}", "names the port soft"),
    "dat/registry.cpp": ('#include "evd.hpp"', 'dat/ includes "evd.hpp"'),
    "tools/program/start.cpp": ("#ifdef _WIN32", "_WIN32: what differs by system"),
    "tests/windows/both.c": ("  # if !defined(__linux__)", "__linux__: what differs by system"),
    "bench/link.cpp": ("int mode = FI_MR_BASIC;", "libfabric 2 deprecates FI_MR_BASIC"),
    "dat/config.cpp": ("#include <fcntl.h>", "dat/ includes <fcntl.h>"),
    "transports/soft/a.cpp": ('#include "evd.hpp"', 'a port includes "evd.hpp"'),
    "transports/soft/b.cpp": ('#include "../../contract/dapls_ib.hpp"', "a port includes"),
    "port_support/gate.cpp": ('#include "wire.hpp"', 'port_support/ includes "wire.hpp"'),
    "port_support/verbs.hpp": ("#include <rdma/rdma_cma.h>", "port_support/ includes <rdma/"),
    "osd/linux/osd_thread.cpp": ('#include "dapls_ib.hpp"', "osd/ includes"),
    "osd/osd_time.hpp": ("#include <sys/time.h>", "the contract includes <sys/time.h>"),
    f"{ENGINE}/wire/up.cpp": ('#include "net/net.hpp"', 'wire/ of the engine includes "net/net.hpp"'),
    f"{ENGINE}/net/bare.cpp": ('#include "serial.hpp"', 'net/ of the engine includes "serial.hpp"'),
    f"{ENGINE}/net/own.cpp": ('#include "net/net.hpp"', 'net/ of the engine includes "net/net.hpp"'),
    f"{ENGINE}/attic/old.cpp": ('#include "wire/serial.hpp"', "attic/ or wire/ is no room"),
    "am/src/a.cpp": ('#include "evd.hpp"', 'am/ includes "evd.hpp"'),
    "am/tools/perf.cpp": ('#include "bench/plot.hpp"', 'am/ includes "bench/plot.hpp"'),
    "include/dat2/up.h": ('#include "evd.hpp"', "include/ includes evd.hpp"),
}


def write_tree(root: pathlib.Path, files: dict[str, str], licensed: bool = True) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((f"// {SPDX}\n" if licensed else "") + text + "\n")


def findings_with(files: dict[str, str], licensed: bool = True) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        write_tree(root, GOOD)
        write_tree(root, files, licensed)
        return [str(finding) for finding in check(root)]


def expect(condition: bool, what: object) -> None:
    if not condition:
        sys.exit(f"self-test failed: {what}")


def self_test() -> None:
    expect(findings_with({}) == [], findings_with({}))
    for name, (text, wanted) in BAD.items():
        found = findings_with({name: text})
        expect(len(found) == 1 and wanted in found[0], (name, found))
        expect(found[0].startswith(f"{name}:2: "), found)
    found = findings_with({"osd/linux/native_new.hpp": ""})
    expect(len(found) == 1 and "osd/windows/native_new.hpp:1: another system" in found[0], found)
    found = findings_with({"common/core/a.hpp": '#include "b.hpp"', "common/core/b.hpp": "",
                           "common/core/b.cpp": '#include "a.hpp"'})
    expect(found == ["common:1: a circle of units: a, b"], found)
    found = findings_with({"transports/soft/a.hpp": '#include "b.hpp"',
                           "transports/soft/b.hpp": '#include "a.hpp"'})
    expect(found == ["transports/soft:1: a circle of units: a, b"], found)
    found = findings_with({"am/src/a.hpp": '#include "b.hpp"', "am/src/b.hpp": "",
                           "am/src/b.cpp": '#include "a.hpp"'})
    expect(found == ["am/src:1: a circle of units: a, b"], found)
    for folder, most in ("common/core", MOST_FILES), (f"{ENGINE}/net", MOST_FILES_OF_THE_ENGINE):
        found = findings_with({f"{folder}/{number}.cpp": "" for number in range(most)})
        expect(len(found) == 1 and "source files; at most" in found[0], found)
    for name in ("common/none.cpp", "tools/none.py", "x/meson.build"):
        found = findings_with({name: ""}, licensed=False)
        expect(len(found) == 1 and "SPDX" in found[0], (name, found))
    print(f"each of {len(BAD) + 9} violations was found, and nothing else")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path, nargs="?", help="top of the source tree")
    parser.add_argument("--self-test", action="store_true", help="see that violations are found")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return
    if options.root is None:
        parser.error("which source tree?")
    findings = check(options.root)
    for finding in findings:
        print(finding)
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
