#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""See how run_jobs.py judges a launcher that does not start the job."""

import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

RUN_JOBS = pathlib.Path(__file__).with_name("run_jobs.py")


class Launcher(unittest.TestCase):
    def judged(self, script):
        """@return exit status and output of a test whose mpirun is this script."""
        with tempfile.TemporaryDirectory() as folder:
            mpirun = pathlib.Path(folder) / "mpirun"
            mpirun.write_text(f"#!/bin/sh\n{script}\n")
            mpirun.chmod(mpirun.stat().st_mode | stat.S_IXUSR)
            done = subprocess.run(
                [sys.executable, RUN_JOBS, "program", "/bin/true"], capture_output=True, text=True,
                check=False, env=dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}"))
        return done.returncode, done.stdout

    def test_lacking_slots_fails_and_says_why(self):
        status, output = self.judged("echo There are not enough slots available; exit 77")
        self.assertEqual(status, 1, output)
        self.assertIn("the launcher has not started the job", output)
        self.assertIn("There are not enough slots available", output)

    def test_another_status_is_no_matter_of_slots(self):
        status, output = self.judged("exit 3")
        self.assertEqual(status, 1, output)
        self.assertIn("exit code 3, not 0", output)
        self.assertNotIn("slots", output)


if __name__ == "__main__":
    unittest.main()
