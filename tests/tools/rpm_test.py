#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The packages that rpmbuild makes of dapl-kit.spec hold the files that debian/*.install lists.

They are made of this build, without compiling it again.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import debian_test  # noqa: E402
from debian_test import DEBIAN, OPTIONS, PARTS, PLACES, ROOT, holds, lists  # noqa: E402

SPEC = ROOT / "dapl-kit.spec"
# The name of the macro for each folder of the installation.
MACROS = {name: f"_{name}" for name in PLACES} | {"prefix": "_prefix"}


def package_of_list() -> dict[str, str]:
    """By the name of a list, the package that has its files."""
    return {name: package for package, name in
            re.findall(r"(?m)^%files -n (\S+) -f %\{_builddir\}/lists/(\S+)\.install$", SPEC.read_text())}


class Spec(unittest.TestCase):
    def test_each_list_is_of_one_package(self) -> None:
        found = package_of_list()
        self.assertEqual(set(found), set(lists()) - {""})
        self.assertEqual(len(set(found.values())), len(found))
        for kind in ("package", "description"):
            self.assertEqual(set(re.findall(rf"(?m)^%{kind} -n (\S+)$", SPEC.read_text())),
                             set(found.values()), kind)

    def test_version(self) -> None:
        text = SPEC.read_text()
        self.assertEqual(re.search(r"(?m)^Version: +(\S+)$", text)[1], OPTIONS.version)
        self.assertEqual(re.search(r"(?m)^\* .* - (\S+)-1$", text)[1], OPTIONS.version)

    def test_what_a_build_needs_is_asked_for(self) -> None:
        """Each library that the packages of Debian are built with."""
        asked = set(re.findall(r"(?m)^BuildRequires: +(?:pkgconfig\()?([\w+.-]+)", SPEC.read_text()))
        names = {"libcli11-dev": "CLI11", "nlohmann-json3-dev": "nlohmann_json", "libssl-dev": "openssl",
                 "libpmix-dev": "pmix", "doctest-dev": "doctest-devel"}
        control = debian_test.field((DEBIAN / "control").read_text().split("\nPackage: ")[0], "Build-Depends")
        for package in control:
            if package.endswith("-dev"):
                self.assertIn(names.get(package, package.removesuffix("-dev")), asked)


class Made(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        debian_test.Packages.setUpClass()
        cls.addClassCleanup(debian_test.Packages.doClassCleanups)
        cls.installed = debian_test.Packages.files
        missing = [path for path in PARTS if path not in cls.installed]
        if missing:
            raise unittest.SkipTest(f"this build lacks {' '.join(missing)}")
        if not shutil.which("rpmbuild"):
            raise unittest.SkipTest("rpmbuild is missing, of Debian's package rpm")
        keep = tempfile.TemporaryDirectory(prefix="rpm-")
        cls.addClassCleanup(keep.cleanup)
        cls.top = pathlib.Path(keep.name)
        cls.make()

    @classmethod
    def make(cls) -> None:
        builds = cls.top / "BUILD"
        release = re.search(r"(\d+)\.(\d+)", subprocess.check_output(["rpm", "--version"], text=True))
        if tuple(map(int, release.groups())) >= (4, 20):  # a folder for each package, made by %mkbuilddir
            builds /= f"dapl-kit-{OPTIONS.version}-build"
            (builds / "SPECPARTS").mkdir(parents=True)
        tree = builds / f"dapl-{OPTIONS.version}"
        tree.mkdir(parents=True)
        (tree / "build").symlink_to(OPTIONS.build)
        (tree / "debian").symlink_to(DEBIAN)
        shutil.copy(ROOT / "COPYING", tree)
        shutil.copytree(ROOT / "LICENSES", tree / "LICENSES")
        prefix = pathlib.Path(OPTIONS.prefix)
        defined = {macro: str(prefix / getattr(OPTIONS, name)) for name, macro in MACROS.items()}
        # The files as they are: neither stripped nor compressed, and without links to symbols.
        defined |= {"_topdir": str(cls.top), "__os_install_post": "%{nil}", "debug_package": "%{nil}",
                    "_binary_payload": "w.ufdio", "_build_id_links": "none"}
        values = [word for name, value in defined.items() for word in ("--define", f"{name} {value}")]
        for step in ("-bi", "-bb"):  # each takes the steps before it as done
            done = subprocess.run(["rpmbuild", step, "--short-circuit", "--nodeps", SPEC, *values],
                                  capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise AssertionError(done.stdout + done.stderr)

    def packages(self) -> dict[str, set[str]]:
        """The files of each package, as the lists name them, without its licence."""
        found = {}
        for path in self.top.glob("RPMS/*/*.rpm"):
            told = subprocess.run(["rpm", "-qp", "--qf", "%{NAME}\n[%{FILEMODES:perms} %{FILENAMES}\n]", path],
                                  capture_output=True, text=True, check=True).stdout.splitlines()
            paths = [line.split(" ", 1) for line in told[1:]]
            found[told[0]] = {debian_test.Packages.packed(debian_test.Packages.root / name.lstrip("/"))
                              for mode, name in paths
                              if not mode.startswith("d") and "/share/licenses/" not in name}
        return found

    def test_files(self) -> None:
        made, wanted = self.packages(), package_of_list()
        self.assertEqual(set(made), set(wanted.values()))
        for name, patterns in lists().items():
            if name:
                self.assertEqual(made[wanted[name]], {path for path in self.installed
                                                      if any(holds(each, path) for each in patterns)}, name)

    def test_configuration_is_kept(self) -> None:
        (path,) = self.top.glob("RPMS/*/libdat-common-*.rpm")
        kept = subprocess.run(["rpm", "-qpc", path], capture_output=True, text=True, check=True).stdout
        self.assertTrue(kept.strip().endswith("/dat.conf"), kept)


if __name__ == "__main__":
    sys.exit(debian_test.main())
