#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Abidiff finds no difference between the ABI of the last release, in releases/*.abi, and today's.

A program depends on the public headers, with which it was compiled, and on the symbols that it finds at
run time. So the symbols that a library exports are compiled once more, of the headers alone, as empty
functions: these have debug information whatever the build's options are, and no types of the library's
inside.

With --renew, after a call was added on purpose, the descriptions are written anew.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

OPTIONS = argparse.Namespace()
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SKIP = 77
LICENCE = "SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause"
INCLUDES = {
    "libdat2": ("include", "dat2/dat_registry.h", "dat2/dat_ib_extensions.h"),
    "libdat": ("include", "dat/dat_registry.h"),
    "libdapl-am": ("am/include", "dapl_am.h"),
}
QUIET = ("--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-architecture",
         "--no-elf-needed", "--type-id-style", "hash")


def exported(library: pathlib.Path) -> set[str]:
    """Symbols with their versions: dat_evd_wait@DAT_2.0."""
    table = subprocess.run(["readelf", "--dyn-syms", "--wide", library], check=True, capture_output=True,
                           text=True).stdout
    found = re.findall(r" (?:FUNC|OBJECT) +(?:GLOBAL|WEAK) +DEFAULT +\d+ (\S+)", table)
    return {each.replace("@@", "@") for each in found}


def named(parameter: str, number: int) -> str:
    """A parameter of a definition, which C wants to have a name."""
    text = " ".join(parameter.split())
    return text if re.fullmatch(r"void|\.\.\.", text) or len(re.findall(r"\w+", text)) > 1 else f"{text} p{number}"


def empty_functions(headers: str, names: set[str]) -> str:
    """Definitions of functions as the preprocessed headers declare them."""
    found = []
    for name in sorted(names):
        declared = re.search(rf"[;}}]([^;{{}}]*?)\b{name}\s*\(((?:[^()]|\([^()]*\))*)\)\s*(?:__attribute__[^;]*)?;",
                             headers)
        if declared is None:
            raise LookupError(f"{name} is exported, and no public header declares it")
        returns = re.sub(r"#pragma[^\n]*|__attribute__ ?\(\(.*?\)\)|\bextern\b", "", declared[1]).strip()
        inner = ", ".join(named(each, number) for number, each in enumerate(declared[2].split(",")))
        found.append(f"{returns} {name}({inner}) {{ __builtin_trap(); }}")
    return "\n".join(found) + "\n"


def version_script(symbols: set[str]) -> str:
    nodes = sorted({each.split("@")[1] for each in symbols})
    listed = {node: [f"{each.split('@')[0]};" for each in sorted(symbols) if each.endswith(f"@{node}")]
              for node in nodes}
    return "".join(f"{node} {{ global: {' '.join(names)} local: *; }};\n" for node, names in listed.items())


def empty_library(name: str, symbols: set[str], root: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Compiles the symbols of the headers alone, and returns where."""
    include, *headers = INCLUDES[name]
    source = "".join(f"#include <{header}>\n" for header in headers)
    plain = subprocess.run([*OPTIONS.compiler, f"-I{root / include}", "-E", "-P", "-x", "c", "-"], input=source,
                           capture_output=True, text=True, check=True).stdout
    (folder / "empty.c").write_text(source + empty_functions(plain, {each.split("@")[0] for each in symbols}))
    (folder / "empty.map").write_text(version_script(symbols))
    library = folder / f"{name}.so"
    subprocess.run([*OPTIONS.compiler, "-g", "-gdwarf-4", "-O0", "-shared", "-fPIC", "-nostdlib", "-w",
                    f"-I{root / include}", f"-Wl,--version-script,{folder / 'empty.map'}", folder / "empty.c",
                    "-o", library], check=True)
    return library


def described(name: str, library: pathlib.Path) -> str:
    """The description of a library's ABI, in the format that each libabigail reads."""
    include = INCLUDES[name][0]
    said = subprocess.run(["abidw", *QUIET, "--headers-dir", ROOT / include, "--drop-private-types", library],
                          capture_output=True, text=True, check=True).stdout
    if not said.startswith("<abi-corpus version='2."):
        sys.exit(f"{said.partition('>')[0]}>: releases/ has descriptions of format 2, which libabigail 2.0 to 3 read "
                 f"and 3 does not write: renew them where abidw is older, as on Debian 12 or 13")
    return said


def difference(before: pathlib.Path, now: pathlib.Path) -> str:
    """What abidiff says of a description and a library; nothing if the two are equal. It compares no
    descriptions of two formats."""
    done = subprocess.run(["abidiff", "--no-architecture", before, now], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


def of_release(name: str) -> pathlib.Path:
    return HERE / "releases" / f"{name}.abi"


def symbols_of(library: pathlib.Path) -> set[str]:
    """What a library exports, without the names of its versions."""
    return {each for each in exported(library) if not each.startswith(f"{each.split('@')[-1]}@")}


class Release(unittest.TestCase):
    def setUp(self) -> None:
        keep = tempfile.TemporaryDirectory(prefix="abi-")
        self.addCleanup(keep.cleanup)
        self.folder = pathlib.Path(keep.name)

    def test_each_library(self) -> None:
        for name, library in OPTIONS.library.items():
            now = empty_library(name, symbols_of(library), ROOT, self.folder)
            found = difference(of_release(name), now)
            self.assertEqual(found, "", f"\n{name} differs from the last release:\n{found}\n"
                             f"If it was meant, and docs/versions.md allows it: {__file__} --renew")

    def test_a_change_is_noticed(self) -> None:
        """A structure, a parameter, a number changes; a symbol is lost, or added."""
        changes = (("dat2/udat.h", "    DAT_COUNT      evd_qlen;", "    DAT_UINT64     evd_qlen;"),
                   ("dat2/dat.h", "DAT_COUNT max_recv_dto);", "DAT_UINT64 max_recv_dto);"),
                   ("dat2/dat.h", "DAT_CLOSE_GRACEFUL_FLAG = 0x01", "DAT_CLOSE_GRACEFUL_FLAG = 0x04"))
        symbols = symbols_of(OPTIONS.library["libdat2"])
        for header, old, new in changes:
            root = self.folder / "changed"
            shutil.copytree(ROOT / "include", root / "include")
            text = (root / "include" / header).read_text()
            self.assertEqual(re.sub(" +", " ", text).count(re.sub(" +", " ", old)), 1, old)
            pattern = re.sub(r"(?:\\ )+", " +", re.escape(old))
            (root / "include" / header).write_text(re.sub(pattern, new, text))
            now = empty_library("libdat2", symbols, root, self.folder)
            self.assertNotEqual(difference(of_release("libdat2"), now), "", new)
            shutil.rmtree(root)
        for other in (symbols - {"dat_evd_wait@DAT_2.0"}, symbols | {"dat_provider_init@DAT_2.0"},
                      (symbols - {"dat_evd_wait@DAT_2.0"}) | {"dat_evd_wait@DAT_2.1"}):
            now = empty_library("libdat2", other, ROOT, self.folder)
            self.assertNotEqual(difference(of_release("libdat2"), now), "")


def renew() -> None:
    with tempfile.TemporaryDirectory(prefix="abi-") as folder:
        for name, library in OPTIONS.library.items():
            made = described(name, empty_library(name, symbols_of(library), ROOT, pathlib.Path(folder)))
            corpus, _, rest = made.partition("\n")  # abidiff wants its element first
            of_release(name).write_text(f"{corpus}\n<!-- {LICENCE} -->\n{rest}")
            print(f"wrote {of_release(name)}")


def reason_to_skip() -> str:
    if not shutil.which("abidw"):
        return "abidw is missing: package abigail-tools"
    told = subprocess.run([*OPTIONS.compiler, "-dumpmachine"], capture_output=True, text=True, check=False).stdout
    if not re.match(r"x86_64-.*linux-gnu$", told.strip()):
        return f"the descriptions are of x86-64, and the compiler makes code for {told.strip()}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--renew", action="store_true")
    parser.add_argument("compiler", nargs="+", help="of C, after --")
    parser.parse_args(namespace=OPTIONS)
    OPTIONS.library = {name: pathlib.Path(file) for name, file in (each.split("=") for each in OPTIONS.library)}
    if reason := reason_to_skip():
        print(f"skipped: {reason}")
        return SKIP
    if OPTIONS.renew:
        renew()
        return 0
    return 0 if unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
