#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A new port of style sim is built for Windows, and hello.c talks over it."""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import hello_test
import windows_program

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/gen"))
import trees  # noqa: E402  (its folder is known only now)


def make(tree: pathlib.Path, build: pathlib.Path) -> None:
    """Make the port and its library."""
    trees.copy_tree(tree)
    for command in (
            [sys.executable, tree / "gen/dapl-port", "new", "acme", "--style", "sim"],
            [trees.MESON, "setup", build, tree, f"--cross-file={tree}/osd/windows/mingw-w64.ini",
             "-Dports=acme", "-Doptimization=0"],
            ["ninja", "-C", build, "transports/libdapl-acme-2.dll", "transports/dat.conf"]):
        done = subprocess.run([str(word) for word in command], cwd=tree,
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{command}:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hello", type=pathlib.Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make(folder / "tree", folder / "build")
        env = windows_program.environment(folder / "build/transports/dat.conf",
                                          folder / "build/dat")
        found = hello_test.talk(options.hello, "acme-lo", "45251", env)
    for what in found:
        print(what)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
