#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A new port compiles at once, and its adapter opens, answers and closes.

Once in a copy of the tree, claiming nothing; once as a project of its own against an installed kit,
with skeletons for all features.
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

from trees import MESON, copy_tree, dapl_port, run  # noqa: E402

PROBE = pathlib.Path(__file__).with_name("open_probe.c")
# Without debug information nothing of an object depends on where its folder is: ccache helps.
QUICK = ("-Doptimization=0", "-Ddebug=false", "-Dwerror=true", "-Dunity=on", "-Dunity_size=100")
KIT_ONLY = (*QUICK, "-Dtests=false", "-Dbenchmarks=false", "-Dplain_variants=false")
VENDOR = "Acme Networks"


class WithFolder(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.tree = copy_tree(self.folder / "tree")
        self.build = self.folder / "out"

    def succeed(self, *command: object, cwd: pathlib.Path | None = None,
                **environment: str) -> str:
        done = run(*command, cwd=cwd, CCACHE_BASEDIR=str(self.folder), **environment)
        said = f"{' '.join(map(str, command))}\n{done.stdout[-6000:]}{done.stderr[-3000:]}"
        self.assertEqual(done.returncode, 0, said)
        return done.stdout

    def open_adapter(self, name: str, include: pathlib.Path, libdat2: pathlib.Path,
                     conf: pathlib.Path) -> None:
        """What a DAT program sees of it."""
        probe = self.folder / "probe"
        self.succeed(*os.environ.get("CC", "cc").split(), "-Wall", "-Wextra", "-Werror",
                     f"-I{include}", PROBE, "-o", probe, f"-L{libdat2}", "-ldat2")
        told = self.succeed(probe, name, VENDOR, LD_LIBRARY_PATH=str(libdat2),
                            DAT_OVERRIDE=str(conf))
        self.assertIn("opened, queried, closed", told)


class InTheTree(WithFolder):
    def test_new_port(self) -> None:
        done = dapl_port(self.tree, "new", "acme", "--vendor", VENDOR)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.succeed(MESON, "setup", self.build, self.tree, "-Dports=acme", *KIT_ONLY)
        self.succeed(MESON, "compile", "-C", self.build, "dat2", "dapl-acme", "dat.conf")
        self.open_adapter("acme-lo", self.tree / "include", self.build / "dat",
                          self.build / "transports/dat.conf")
        layers = run(sys.executable, self.tree / "tests/layers/check_layers.py", self.tree)
        self.assertNotIn("transports/acme", layers.stdout)


class OutsideTheTree(WithFolder):
    def test_project_that_claims_all(self) -> None:
        told = dapl_port(self.tree, "status", "libfabric", "--json").stdout
        features = ",".join(json.loads(told)["features"])
        installed = self.folder / "installed"
        self.succeed(MESON, "setup", self.build, self.tree, "-Dports=[]", *KIT_ONLY,
                     f"-Dprefix={installed}", "-Dlibdir=lib")
        self.succeed(MESON, "install", "-C", self.build)
        shutil.rmtree(self.tree)  # nothing of it is needed any more
        shutil.rmtree(self.build)

        project = self.folder / "dapl-acme"
        self.succeed(installed / "bin/dapl-port", "new", "acme", "--vendor", VENDOR,
                     "--claims", features, "--directory", project, cwd=self.folder)
        self.assertIn("is an installed kit",
                      run(installed / "bin/dapl-port", "new", "acme", cwd=self.folder).stderr)
        out = project / "build"
        self.succeed(MESON, "setup", out, project, *QUICK,
                     PKG_CONFIG_PATH=f"{installed}/lib/pkgconfig:{installed}/share/pkgconfig")
        self.succeed("ninja", "-C", out)
        self.open_adapter("acme-lo", installed / "include", installed / "lib", out / "dat.conf")
        self.assertIn("acme: 0 of", self.succeed(installed / "bin/dapl-port", "status",
                                                 cwd=project))


if __name__ == "__main__":
    unittest.main()
