#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""An operation of the contract is written down in few places: places.patch adds one.

Outside its port it has four: the header, a row of the table, the call, and a case of the suite. All
else follows from these: the reference, the skeletons, the check of ports, the faults. What changes
is compiled. With DAPL_EVERY it is built, and the case passes, and fails under each fault of the row.
"""

import json
import pathlib
import re
import shlex
import shutil
import sys
import tomllib
import unittest

sys.dont_write_bytecode = True

from build_test import EVERY, KIT_ONLY, WithFolder  # noqa: E402
from trees import MESON, dapl_port  # noqa: E402

PATCH = pathlib.Path(__file__).with_name("places.patch")
PORT = "transports/soft/"
PLACES = 4
OPERATION = "dapls_ib_cq_rest"
FAULTS = "tests/fault_port"
OPTIONS = [each for each in KIT_ONLY if each not in ("-Dtests=false", "-Dconformance=disabled")]


def places(patch: str) -> list[str]:
    """The file of each hunk."""
    found = []
    for part in re.split(r"(?m)^--- ", patch)[1:]:
        path = re.search(r"(?m)^\+\+\+ b/(\S+)", part)[1]
        found += [path] * len(re.findall(r"(?m)^@@ ", part))
    return found


class Places(WithFolder):
    def setUp(self) -> None:
        if shutil.which("patch") is None:
            self.skipTest("there is no patch here")
        super().setUp()
        self.succeed("patch", "-p1", "-i", PATCH, cwd=self.tree)
        table = tomllib.loads((self.tree / "gen/dapls_ib.toml").read_text())
        self.row = table["operations"][OPERATION]

    def test_outside_the_port_there_are_four(self) -> None:
        outside = [each for each in places(PATCH.read_text()) if not each.startswith(PORT)]
        self.assertLessEqual(len(outside), PLACES, outside)
        self.assertLess(len(outside), len(places(PATCH.read_text())))

    def test_all_else_follows(self) -> None:
        """The page is made anew; then the tests of the table and of the layers pass."""
        for program in ("gen/contract_reference.py", "tests/gen/contract_test.py"):
            self.succeed(sys.executable, self.tree / program)
        self.succeed(sys.executable, self.tree / "tests/layers/check_layers.py", self.tree)
        made = dapl_port(self.tree, "new", "acme", "--claims", "cq_wait,cq_count")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn(OPERATION, (self.tree / "transports/acme/port.hpp").read_text())

    def setup_build(self, unity: str) -> None:
        self.succeed(MESON, "setup", self.build, self.tree, "-Dports=soft", *OPTIONS,
                     "-Dtests=true", "-Dconformance=enabled", f"-Dunity={unity}")

    @unittest.skipIf(EVERY, "it is built whole")
    def test_the_changed_sources_compile(self) -> None:
        self.setup_build("off")
        commands = json.loads((self.build / "compile_commands.json").read_text())
        using = next(each["output"] for each in commands
                     if "libdapl-fault-soft" in each["output"] and each["file"].endswith("core/evd.cpp"))
        self.succeed("ninja", "-C", self.build, using)
        # The cases are always compiled together.
        words = next(shlex.split(each["command"]) for each in commands
                     if "libconformance-parts" in each["output"])
        self.succeed(*words[:-1], self.tree / "conformance/cases/evd_test.cpp", "-fsyntax-only",
                     cwd=self.build)

    @unittest.skipUnless(EVERY, "DAPL_EVERY is not set")
    def test_its_faults_turn_its_case_red(self) -> None:
        self.setup_build("on")
        names = ["conformance/dapl-conformance", f"{FAULTS}/libdapl-fault-soft.so",
                 f"{FAULTS}/libdat2-faults.so", f"{FAULTS}/dat.conf"]
        self.succeed("ninja", "-C", self.build, *names)
        program, _, calls, conf = (str(self.build / each) for each in names)
        table = self.tree / FAULTS / "faults.toml"
        told = self.succeed(
            sys.executable, self.tree / FAULTS / "faults_test.py", "--conformance", program,
            "--ia", "soft-lo-faults", "--table", table, "--calls", calls,
            "--contract-table", self.tree / "gen/dapls_ib.toml",
            "--subjects", self.build / FAULTS / "fault_subjects.hpp", "--fault", "cq_rest:*",
            DAT_OVERRIDE=conf, LD_LIBRARY_PATH=str(self.build / "dat"))
        self.assertIn(f"\n{len(self.row['faults'])} faults, 0 failed", told)


if __name__ == "__main__":
    unittest.main()
