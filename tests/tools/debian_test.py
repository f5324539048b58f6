#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The packages of debian/ hold what is installed, and their lists of symbols what libraries export.

Needs no tool of Debian: it holds even where no package is ever built.
"""

import argparse
import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

OPTIONS = argparse.Namespace()
ROOT = pathlib.Path(__file__).resolve().parents[2]
DEBIAN = ROOT / "debian"
MESON = "/usr/bin/meson" if os.path.exists("/usr/bin/meson") else "meson"
# Where debhelper has folders of the installation.
PLACES = {"bindir": "usr/bin", "datadir": "usr/share", "includedir": "usr/include",
          "libdir": "usr/lib/TRIPLET", "libexecdir": "usr/libexec", "mandir": "usr/share/man",
          "sysconfdir": "etc"}
# Parts that a build may lack: a file of each.
PARTS = ("usr/lib/TRIPLET/libdapl-am.so", "usr/lib/TRIPLET/libdapl-libfabric.so",
         "usr/lib/TRIPLET/libdapl-libfabric_rdm.so",
         "usr/lib/TRIPLET/libdapl-soft.so", "usr/lib/TRIPLET/libdapl-verbs.so", "usr/bin/dat-perf",
         "usr/bin/dapl-conformance", "usr/share/man/man3/dapl_am_put.3", "usr/share/man/man5/dat.conf.5")


def lines_of(path: pathlib.Path) -> list[str]:
    """The lines without comments."""
    return [line.rstrip() for line in path.read_text().splitlines()
            if line.strip() and not line.startswith("#")]


def lists() -> dict[str, list[str]]:
    """The patterns of files of each package; those of no package are under ''."""
    found = {path.stem: lines_of(path) for path in sorted(DEBIAN.glob("*.install"))}
    return {**found, "": lines_of(DEBIAN / "not-installed")}


def holds(pattern: str, path: str) -> bool:
    """Whether a pattern names a file, or a folder above it, as dh_install reads it."""
    parts, wanted = path.split("/"), pattern.split("/")
    return len(parts) >= len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def packages() -> dict[str, str]:
    """The paragraph of each package."""
    paragraphs = "\n".join(lines_of(DEBIAN / "control")).split("\nPackage: ")
    return {each.split("\n")[0]: each for each in paragraphs[1:]}


def field(paragraph: str, name: str) -> list[str]:
    """The names of packages in a field, without versions."""
    text = re.search(rf"(?m)^{name}:((?:.*\n )*.*)", paragraph)
    return re.findall(r"(?<![(\w{.+-])[a-z][a-z0-9+.-]+", re.sub(r"\([^)]*\)", "", text[1])) if text else []


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        keep = tempfile.TemporaryDirectory(prefix="debian-")
        cls.addClassCleanup(keep.cleanup)
        cls.root = pathlib.Path(keep.name)
        done = subprocess.run([MESON, "install", "-C", OPTIONS.build, "--destdir", cls.root,
                               "--no-rebuild", "--quiet"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        cls.files = {cls.packed(path): path for path in cls.root.rglob("*")
                     if path.is_symlink() or path.is_file()}

    @classmethod
    def packed(cls, path: pathlib.Path) -> str:
        """Its path in a package."""
        prefix = pathlib.Path(OPTIONS.prefix)
        folders = {(prefix / getattr(OPTIONS, name)).relative_to("/"): place
                   for name, place in PLACES.items()}
        there = path.relative_to(cls.root)
        for folder in sorted(folders, key=lambda each: -len(each.parts)):
            if there.is_relative_to(folder):
                return f"{folders[folder]}/{there.relative_to(folder)}"
        raise AssertionError(f"{there} is in no folder of the installation")

    def test_each_file_is_in_one_list(self) -> None:
        for path in self.files:
            inside = [package for package, patterns in lists().items() for pattern in patterns
                      if holds(pattern, path)]
            self.assertEqual(len(inside), 1, f"{path}: {inside}")

    def test_each_line_names_a_file(self) -> None:
        missing = [path for path in PARTS if path not in self.files]
        if missing:
            self.skipTest(f"this build lacks {' '.join(missing)}")
        for package, patterns in lists().items():
            for pattern in patterns:
                self.assertTrue(any(holds(pattern, path) for path in self.files),
                                f"{package or 'not-installed'}: {pattern}")

    def test_symbols(self) -> None:
        for path in sorted(DEBIAN.glob("*.symbols")):
            lines = lines_of(path)
            name, package = lines[0].split()[:2]
            self.assertEqual(package, path.stem)
            library = self.files.get(f"usr/lib/TRIPLET/{name}")
            if library is None:
                continue
            listed = {line.split()[0] for line in lines if line.startswith(" ")}
            table = subprocess.run(["readelf", "--dyn-syms", "--wide", library], check=True,
                                   capture_output=True, text=True).stdout
            found = re.findall(r" (?:FUNC|OBJECT) +(?:GLOBAL|WEAK) +DEFAULT +\d+ (\S+)", table)
            exported = {each.replace("@@", "@") if "@" in each else f"{each}@Base" for each in found}
            versions = {each.split("@")[1] for each in exported} - {"Base"}
            self.assertEqual(listed, exported | {f"{each}@{each}" for each in versions}, path.name)

    def test_versions(self) -> None:
        newest = re.match(r"dapl-kit \(([^-]+)-", (DEBIAN / "changelog").read_text())
        self.assertEqual(newest[1], OPTIONS.version)
        for path in DEBIAN.glob("*.symbols"):
            for line in lines_of(path):
                if line.startswith(" "):
                    since = tuple(map(int, line.split()[1].split(".")))
                    self.assertLessEqual(since, tuple(map(int, OPTIONS.version.split("."))), line)

    def test_lists_are_of_packages(self) -> None:
        ours = packages()
        self.assertEqual(set(lists()) - {""}, set(ours))
        for package in ours:
            libraries = [line for line in lists()[package] if line.endswith(".so.*") or
                         re.search(r"\.so\.\d+\*$", line)]
            self.assertEqual((DEBIAN / f"{package}.symbols").exists(), bool(libraries), package)

    def test_no_package_excludes_another(self) -> None:
        """What one provides, none but itself conflicts with."""
        for name, paragraph in packages().items():
            for other in set(packages()) - {name}:
                self.assertFalse(set(field(paragraph, "Provides")) &
                                 set(field(packages()[other], "Conflicts")), f"{name}, {other}")

    def test_what_a_build_needs_is_asked_for(self) -> None:
        """Each library that tools/setup-packages installs for a build, and what generates sources."""
        asked = field("\n".join(lines_of(DEBIAN / "control")).split("\nPackage: ")[0], "Build-Depends")
        for name in ("build", "clients"):
            for line in lines_of(ROOT / f"tools/packages.{name}"):
                if re.search(r"-dev$|^python3-|^meson$", line) and line != "dpkg-dev":
                    self.assertIn(line, asked)

    def test_packages_of_the_image(self) -> None:
        """The Containerfile takes our packages, with all of ours that they depend on."""
        ours = packages()
        taken = set(re.findall(r"([\w.+-]+)_\*\.deb", (ROOT / "Containerfile").read_text()))
        # By the names of libraries, which only a build could tell.
        libraries = {"dat-tools": ["libdat2-2", "libdapl-am1"], "libdapl-am1": ["libdat2-2"]}
        self.assertIn("dat-tools", taken)
        for name in taken:
            self.assertIn(name, ours)
            needed = [*field(ours[name], "Depends"), *libraries.get(name, [])]
            self.assertLessEqual(set(needed) & set(ours), taken, name)

    def test_tests_are_there(self) -> None:
        control = (DEBIAN / "tests/control").read_text()
        names = re.findall(r"(?m)^Tests: (\S+)$", control)
        self.assertEqual(sorted(names), sorted(path.name for path in (DEBIAN / "tests").iterdir()
                                               if path.name != "control"))
        for name in names:
            self.assertTrue(os.access(DEBIAN / "tests" / name, os.X_OK), name)

    def test_files_of_the_implementation_before(self) -> None:
        """Who has a file of a package of Debian's dapl says that it replaces that one."""
        if not shutil.which("dpkg-query"):
            self.skipTest("this is not Debian")
        seen = 0
        for other in ("dapl2-utils", "libdapl-dev", "libdapl2"):
            listed = subprocess.run(["dpkg-query", "--listfiles", other], capture_output=True, text=True,
                                    check=False).stdout.splitlines()
            theirs = {re.sub(r"^/usr/lib/[^/]+-linux-gnu/", "/usr/lib/TRIPLET/", path).removesuffix(".gz")
                      for path in listed}
            for path in (path for path in self.files if f"/{path}" in theirs):
                seen += 1
                for package, patterns in lists().items():
                    if package and any(holds(pattern, path) for pattern in patterns):
                        self.assertIn(other, field(packages()[package], "Replaces"), path)
        if not seen:
            self.skipTest("libdapl2 is not installed")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for one in ("build", "version", "prefix", *PLACES):
        parser.add_argument("--" + one, required=True)
    rest = parser.parse_known_args(namespace=OPTIONS)[1]
    program = unittest.main(argv=[sys.argv[0], *rest], exit=False)
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
