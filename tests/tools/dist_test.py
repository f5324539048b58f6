#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The archive of a release, which `meson dist` makes of committed files: a build of it has the manual pages,
too."""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

OPTIONS = argparse.Namespace()
ROOT = pathlib.Path(__file__).resolve().parents[2]
MESON = "/usr/bin/meson" if os.path.exists("/usr/bin/meson") else "meson"
SKIP = 77


def run(*command: object) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)


def reason_to_skip() -> str:
    if run("git", "-C", ROOT, "rev-parse", "HEAD").returncode != 0:
        return "this tree is no checkout of git, of which meson makes the archive"
    return ""


class Dist(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        keep = tempfile.TemporaryDirectory(prefix="dist-")
        cls.addClassCleanup(keep.cleanup)
        cls.folder = pathlib.Path(keep.name)
        made = run(MESON, "dist", "-C", OPTIONS.build, "--no-tests", "--allow-dirty", "--formats", "gztar")
        archives = list((pathlib.Path(OPTIONS.build) / "meson-dist").glob("*.tar.gz"))
        if made.returncode != 0 or len(archives) != 1:
            raise AssertionError(f"{archives}\n{made.stdout}{made.stderr}")
        with tarfile.open(archives[0]) as archive:
            archive.extractall(cls.folder)
        shutil.rmtree(archives[0].parent)
        cls.tree = next(cls.folder.iterdir())

    def test_name(self) -> None:
        self.assertEqual(self.tree.name, f"dapl-{OPTIONS.version}")

    def test_pages_are_installed(self) -> None:
        build = self.folder / "build"
        configured = run(MESON, "setup", build, self.tree, "-Dports=soft", "-Dam=disabled",
                         "-Dconformance=disabled")
        self.assertEqual(configured.returncode, 0, configured.stdout + configured.stderr)
        installed = json.loads(run(MESON, "introspect", build, "--installed").stdout)
        pages = {pathlib.Path(path).name for path in installed.values() if "/share/man/" in path}
        # A program's page comes with the program, a call's with the headers.
        self.assertEqual({page for page in pages if not page.endswith(".3") and "_" not in page},
                         {"dapl-environment.7", "dapl-port.1", "dat-info.1", "dat-perf.1", "dat.7",
                          "dat.conf.5", "udapl.7"})
        self.assertTrue({"dat_calls.7", "dat_evd_wait.3", "dapls_ib_post_send.3"} <= pages)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--version", required=True)
    rest = parser.parse_known_args(namespace=OPTIONS)[1]
    if reason := reason_to_skip():
        print(f"skipped: {reason}")
        return SKIP
    program = unittest.main(argv=[sys.argv[0], *rest], exit=False)
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
