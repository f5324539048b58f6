#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""See how run_jobs.py judges a launcher that does not start the job."""

import os
import pathlib
import pwd
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


SLURM = {
    "setpriv": """for each; do case $each in --socket=*) touch "${each#*=}";; esac; done
                  echo $$ >"$PIDS/munged.pid"; exec sleep 600""",
    "slurmctld": 'echo $$ >"$PIDS/slurmctld.pid"; exec sleep 600',
    "slurmd": 'for last; do :; done; echo "no cgroup" >"${last%/*}/slurmd.log"; exit 1',
    "sinfo": "exit 1",
    "srun": "exit 1",
    "munged": "exit 1",
}


def has_user(name):
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


class Slurm(unittest.TestCase):
    @unittest.skipUnless(os.geteuid() == 0 and has_user("munge"), "root and user munge are needed")
    def test_a_daemon_that_does_not_start_is_named_at_once_and_leaves_no_other_one(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, script in SLURM.items():
                program = pathlib.Path(folder) / name
                program.write_text(f"#!/bin/sh\n{script}\n")
                program.chmod(program.stat().st_mode | stat.S_IXUSR)
            done = subprocess.run(
                [sys.executable, RUN_JOBS, "program", "/bin/true", "--launcher", "srun"],
                capture_output=True, text=True, check=False, timeout=50,
                env=dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}", PIDS=folder))
            told = [file.read_text() for file in pathlib.Path(folder).glob("*.pid")]
            started = [int(pid) for pid in told if pid]  # a file is empty whose writer was killed
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)
        self.assertIn("no cgroup", done.stdout)
        for pid in started:
            self.assertRaises(ProcessLookupError, os.kill, pid, 0)


if __name__ == "__main__":
    unittest.main()
