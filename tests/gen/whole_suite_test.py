#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A new port of style sim passes the whole suite at once; ports of style polled, callback, verbs-like
and unconnected pass it over toy libraries.

They are built in a copy of the tree, by each compiler that is there; and as projects of their own
against an installed kit.
"""

import json
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
WITHOUT_DEVICE = 90  # cases that pass while no function of the library is written
WITHOUT_CQS = 70  # where these make CQs, too
HERE = pathlib.Path(__file__).parent
# The toys are fabrics inside one process, like the device of the memory port. The callback toy has
# connections of its own, too; the others connect over TCP.
ONE_PROCESS = HERE.parent / "memory_port/waivers.json"
NO_OTHER_PROCESS = ("EP-42", "EP-43", "EP-44", "SP-23", "LIFE-15", "LIFE-16")


class WholeSuite(WithFolder):
    def waivers(self, *cases: str) -> tuple[str, str]:
        """The option that waives these cases, and the cases of a fabric inside one process, in any
        way.
        """
        rows = json.loads(ONE_PROCESS.read_text())
        rows += [{**rows[0], "case": case, "link": "tests/gen/toy_api.cpp"} for case in cases]
        rows = [{**row, "failure": "*"} for row in rows]
        path = self.folder / f"waivers-{len(cases)}.json"
        path.write_text(json.dumps(rows))
        return "--waivers", str(path)

    def test_in_the_tree(self) -> None:
        ports = {"apogee": "sim", "acme": "polled", "apex": "polled", "aspen": "callback",
                 "atlas": "callback", "amber": "verbs-like", "argon": "verbs-like",
                 "azure": "unconnected", "ample": "unconnected"}
        for name, style in ports.items():
            done = dapl_port(self.tree, "new", name, "--style", style)
            self.assertEqual(done.returncode, 0, done.stderr)
        for name, layer in (("acme", "lib"), ("aspen", "api"), ("amber", "verbs"),
                            ("azure", "device")):
            port = self.tree / "transports" / name
            toy = (HERE / f"toy_{layer}.cpp").read_text()
            (port / f"{name}_{layer}.cpp").write_text(toy.replace("acme", name))
            shutil.copy(HERE / "toy_fabric.hpp", port)
            build = (port / "meson.build").read_text()
            self.assertIn("\nport_deps = []\n", build)
            (port / "meson.build").write_text(build.replace(
                "\nport_deps = []\n", "\nport_deps = [cpp.find_library('stdc++')]\n"))
        for cxx, cc in COMPILERS.items():
            if shutil.which(cxx) is None:
                continue
            build = self.folder / f"out-{cc}"
            with self.subTest(cxx=cxx):
                self.succeed(MESON, "setup", build, self.tree, f"-Dports={','.join(ports)}",
                             *KIT_ONLY, CC=cc, CXX=cxx)
                self.succeed("ninja", "-C", build)
                where = (build / "dat", build / "transports/dat.conf")
                self.judge("apex-lo", *where, WITHOUT_DEVICE)
                self.judge("atlas-lo", *where, WITHOUT_DEVICE)
                self.judge("argon-lo", *where, WITHOUT_CQS)
                self.judge("ample-lo", *where, WITHOUT_DEVICE)
                for line in ((), ("--threadsafe",)):
                    self.judge("apogee-lo", *where, LEAST, *line)
                    for port in ("acme-lo", "amber-lo"):
                        self.judge(port, *where, LEAST, *line, *self.waivers())
                    self.judge("azure-lo", *where, LEAST, *line)
                    self.judge("aspen-lo", *where, LEAST, *line, *self.waivers(*NO_OTHER_PROCESS))

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
