#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""tools/setup-packages, by a package manager that only notes what it is asked for."""

import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = {
    "dpkg-query": "exit 1",  # nothing is installed
    # Longer than a pipe holds, for a reader that does not read it all.
    "apt-cache": """[ "$2" != "$ABSENT" ] || exit 0
echo "$2:"
echo "  Candidate: 1.0"
seq 100000""",
    "apt-get": """echo "$@" >>"$NOTES" """,
}


@unittest.skipUnless(os.geteuid() == 0, "only root is let to install")
class SetupPackages(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="packages-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.notes = self.folder / "notes"
        self.notes.touch()
        for name, text in PROGRAMS.items():
            program = self.folder / name
            program.write_text(f"#!/bin/sh\n{text}\n")
            program.chmod(0o755)

    def asked(self, *lists: str, absent: str = "") -> tuple[int, str, list[str]]:
        done = subprocess.run(
            [ROOT / "tools/setup-packages", *lists], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, check=False,
            env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "ABSENT": absent,
                 "NOTES": str(self.notes)})
        return done.returncode, done.stdout, self.notes.read_text().splitlines()

    def test_what_can_be_had_is_installed_at_once(self) -> None:
        status, said, calls = self.asked("build", "clients")
        self.assertEqual(status, 0, said)
        self.assertEqual(len(calls), 1, calls)
        self.assertIn(" install ", calls[0])
        self.assertIn(" libfabric-dev", calls[0])

    def test_one_that_cannot_be_had_leaves_the_others(self) -> None:
        status, said, calls = self.asked("build", "clients", absent="libpmix-dev")
        self.assertEqual(status, 0, said)
        self.assertIn("libpmix-dev is in no package source of this machine; it is for: "
                      "libdapl-am, and a launcher of its jobs", said)
        self.assertEqual([" update" in call for call in calls], [True, False])
        self.assertIn(" openmpi-bin", calls[1])
        self.assertNotIn("libpmix-dev", calls[1])

    def test_what_a_build_needs_is_an_error(self) -> None:
        status, said, calls = self.asked("build", absent="doctest-dev")
        self.assertEqual(status, 1, said)
        self.assertIn("error: doctest-dev is missing, and nothing can be built without it", said)
        self.assertIn(" ninja-build", calls[-1])


if __name__ == "__main__":
    unittest.main()
