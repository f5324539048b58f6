#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A new port of style sim passes the whole suite at once, and one of style polled over a toy library.

In a copy of the tree, compiled by each compiler that is there; and as a project of its own against
an installed kit.
"""

import pathlib
import re
import shutil
import sys
import unittest

sys.dont_write_bytecode = True

from build_test import KIT_ONLY, MESON, QUICK, WithFolder  # noqa: E402
from trees import dapl_port  # noqa: E402

COMPILERS = {"g++": "gcc", "clang++": "clang"}
LEAST = 260  # cases that need no feature
WITHOUT_DEVICE = 90  # while no function of the library is written
HERE = pathlib.Path(__file__).parent
# The toy is a fabric inside one process, as the device of the memory port.
ONE_PROCESS = HERE.parent / "memory_port/waivers.json"


class WholeSuite(WithFolder):
    def test_in_the_tree(self) -> None:
        for name, style in (("apogee", "sim"), ("acme", "polled"), ("apex", "polled")):
            done = dapl_port(self.tree, "new", name, "--style", style)
            self.assertEqual(done.returncode, 0, done.stderr)
        shutil.copy(HERE / "toy_lib.cpp", self.tree / "transports/acme/acme_lib.cpp")
        for cxx, cc in COMPILERS.items():
            if shutil.which(cxx) is None:
                continue
            build = self.folder / f"out-{cc}"
            with self.subTest(cxx=cxx):
                self.succeed(MESON, "setup", build, self.tree, "-Dports=acme,apex,apogee", *KIT_ONLY,
                             CC=cc, CXX=cxx)
                self.succeed("ninja", "-C", build)
                self.judge("apex-lo", build / "dat", build / "transports/dat.conf", WITHOUT_DEVICE)
                for line in ((), ("--threadsafe",)):
                    where = (build / "dat", build / "transports/dat.conf", LEAST, *line)
                    self.judge("apogee-lo", *where)
                    self.judge("acme-lo", *where, "--waivers", str(ONE_PROCESS))

    def test_outside_the_tree(self) -> None:
        installed = self.install()
        project = self.folder / "dapl-acme"
        told = self.succeed(installed / "bin/dapl-port", "new", "acme", "--style", "sim",
                            "--directory", project, cwd=self.folder)
        where = re.search(r"next: PKG_CONFIG_PATH=(\S+) meson setup", told)
        self.assertIsNotNone(where, told)
        out = project / "build"
        self.succeed(MESON, "setup", out, project, *QUICK, PKG_CONFIG_PATH=where[1])
        self.succeed("ninja", "-C", out)
        self.assertIn("places still simulated",
                      self.succeed(installed / "bin/dapl-port", "status", "--directory", project))
        self.judge("acme-lo", installed / "lib", out / "dat.conf", LEAST)


if __name__ == "__main__":
    unittest.main()
