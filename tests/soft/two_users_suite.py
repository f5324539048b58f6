#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Judge the software HCA between processes of two users of one host.

Neither is given the memory of the other: their packets go over UDP. The build is bound to a folder
that all can read, in a mount namespace. Ends with 77 where that cannot be made, and says why.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

from bad_network import PROMISES, SKIPPED

USER = "nobody"
CASES = ("CONN-*", "CR-*", "DTO-*", "EXT-*", "LIFE-*", "RMR-*", "SP-*", "SRQ-*")


def in_namespace(options: argparse.Namespace, more: list[str]) -> int:
    """Runs where mounts are seen by this process and its children only."""
    build = options.build_root.resolve()
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder).chmod(0o755)
        seen = pathlib.Path(folder) / "build"
        conf = pathlib.Path(folder) / "dat.conf"
        seen.mkdir()
        conf.write_text(options.dat_conf.read_text().replace(f"{build}/", f"{seen}/"))
        subprocess.run(["mount", "--bind", build, seen], check=True)
        program = seen / options.conformance.resolve().relative_to(build)
        suite = [program, "--ia", "soft-lo", "--threadsafe", "--peer-user", USER, *more]
        for promise in PROMISES:
            suite += ["--promise", promise]
        for case in CASES:
            suite += ["--case", case]
        try:
            return subprocess.run(suite, env={**os.environ, "DAT_OVERRIDE": str(conf),
                                              "LD_LIBRARY_PATH": str(seen / "dat")},
                                  check=False).returncode
        finally:
            subprocess.run(["umount", seen], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conformance", type=pathlib.Path, required=True, metavar="PROGRAM")
    parser.add_argument("--dat-conf", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--build-root", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--unshared", action="store_true", help=argparse.SUPPRESS)
    options, more = parser.parse_known_args()
    if options.unshared:
        return in_namespace(options, more)
    unshare = ["unshare", "--mount", "--"]
    tried = subprocess.run([*unshare, "true"], capture_output=True, text=True, check=False)
    if os.geteuid() != 0 or tried.returncode != 0:
        print(f"skipped: a mount namespace needs root: {tried.stderr.strip()}")
        return SKIPPED
    again = [sys.executable, *sys.argv, "--unshared"]
    return subprocess.run([*unshare, *again], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
