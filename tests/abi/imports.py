#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Checks the imports of the libraries that are loaded into other people's processes.

Such a process may have replaced the functions of the heap, but not all of them, and may have
brought another C++ library. So a library of ours needs the C library and the libraries named on the
command line, as LIBRARY=NEEDED,NEEDED; its symbols come from there, and memory that they allocate
is freed where it was allocated. Exit status: 0 that is so, 1 it is not, 77 readelf is missing.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SKIP = 77

# The C library, which once was several.
OF_THE_SYSTEM = re.compile(r"(lib(c|pthread|dl|rt)|ld-linux.*|ld64)\.so\.\d+")
VERSIONS = {  # versions of symbols whose names do not begin with the library's
    "GLIBC_": "", "libc.musl": "", "FABRIC_": "libfabric", "IBVERBS_": "libibverbs",
    "RDMACM_": "librdmacm", "DAT_": "libdat2",
}
WITHOUT_VERSION = re.compile(r"_ITM_\w+|__gmon_start__|PMIx\w+")

# Blocks that free() gets are malloc's, calloc's or realloc's: allocators replace these together, but
# often not the others, nor what the C library allocates inside and leaves to its callers.
FOREIGN_BLOCKS = re.compile(
    r"aligned_alloc|memalign|posix_memalign|p?valloc|reallocarray|"
    r"(__)?(str|strn|wcs)dup|(__)?get(line|delim)|(__)?v?asprintf(_chk)?|realpath|canonicalize_file_name|"
    r"get_current_dir_name|tempnam|open_w?memstream|scandir(at)?(64)?|backtrace_symbols|argz_\w+|envz_\w+")
# Set-user-ID programs have an environment of their users; osd::environment() does not look into it.
OF_USERS = re.compile(r"getenv|environ|__environ")


def output(*command: object) -> str:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout


def needed(library: Path) -> set[str]:
    return set(re.findall(r"\(NEEDED\)\s+Shared library: \[(.*)\]", output("readelf", "-dW", library)))


def imported(library: Path) -> list[tuple[str, str]]:
    """Name and version of each undefined symbol."""
    found = []
    for line in output("readelf", "--dyn-syms", "-W", library).splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[6] == "UND":
            name, _, version = fields[7].partition("@")
            found.append((name, version.lstrip("@")))
    return found


def exported_operators(library: Path) -> list[str]:
    """Others' operators new and delete would be these."""
    names = output("nm", "-D", "--defined-only", library).split()
    return [name for name in names if re.match(r"_Z(nw|na|dl|da)|_ZSt7nothrow", name)]


def home_of(version: str) -> str | None:
    """Empty: the C library's."""
    return next((home for prefix, home in VERSIONS.items() if version.startswith(prefix)), None)


def differences(library: Path, expected: set[str]) -> list[str]:
    others = {name for name in needed(library) if not OF_THE_SYSTEM.fullmatch(name)}
    found = [f"needs {name}" for name in sorted(others - expected)]
    found += [f"does not need {name}" for name in sorted(expected - others)]
    for name, version in imported(library):
        home = home_of(version)
        if version and (home is None or home and not any(each.startswith(home) for each in expected)):
            found.append(f"imports {name} of {version}")
        if not version and not WITHOUT_VERSION.fullmatch(name):
            found.append(f"imports {name}, of whichever library has one")
        if FOREIGN_BLOCKS.fullmatch(name):
            found.append(f"imports {name}: its blocks may be another allocator's than free()'s")
        if OF_USERS.fullmatch(name):
            found.append(f"imports {name}: osd::environment() is for that")
    found += [f"exports {name}" for name in exported_operators(library)]
    return [f"{library.name} {what}" for what in found]


def main(arguments: list[str]) -> int:
    if not shutil.which("readelf"):
        print("readelf is missing; the Debian package is binutils")
        return SKIP
    found = []
    for argument in arguments:
        library, _, expected = argument.partition("=")
        found += differences(Path(library), set(filter(None, expected.split(","))))
    print("\n".join(found) or f"{len(arguments)} libraries need what they may")
    return 1 if found or not arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
