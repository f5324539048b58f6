#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The archive of a release, which `meson dist` makes of what is committed: who builds from it gets the
manual pages without pandoc."""

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


def run(*command: object, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, env={**os.environ, **environment})


def programs_without(name: str, folder: pathlib.Path) -> str:
    """A PATH with everything of this one but the named program."""
    folder.mkdir()
    for part in os.get_exec_path():
        for path in pathlib.Path(part).glob("*"):
            if path.name != name and not os.path.lexists(folder / path.name):
                (folder / path.name).symlink_to(path)
    return str(folder)


def reason_to_skip() -> str:
    if not shutil.which("pandoc"):
        return "pandoc is missing, which makes the manual pages of the archive"
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

    def test_pages_are_installed_without_pandoc(self) -> None:
        sources = list((self.tree / "docs/man").glob("*.md"))
        self.assertGreater(len(sources), 5)
        for source in sources:
            page = source.with_suffix("").read_text()
            self.assertIn(f"dapl {OPTIONS.version}", page)
            self.assertIn(".SH NAME", page)
        build = self.folder / "build"
        configured = run(MESON, "setup", build, self.tree, "-Dports=soft", "-Dam=disabled",
                         "-Dconformance=disabled", PATH=programs_without("pandoc", self.folder / "bin"))
        self.assertEqual(configured.returncode, 0, configured.stdout + configured.stderr)
        installed = json.loads(run(MESON, "introspect", build, "--installed").stdout)
        pages = {pathlib.Path(path).name for path in installed.values() if "/share/man/" in path}
        # Pages of programs come with them.
        self.assertEqual(pages, {"dapl-environment.7", "dapl-port.1", "dat-info.1", "dat-perf.1",
                                 "dat.conf.5"})


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
