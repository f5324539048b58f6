#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Judge the software HCA between processes of two users of one host.

Neither is given the memory of the other: their packets go over UDP. The cases of the suite that
have a peer process, and Debian's programs. The build is bound to a folder that all can read, in a
mount namespace. Ends with 77 where that cannot be made, and says why.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

from bad_network import PROMISED, SKIPPED

USER = "nobody"
CASES = ("CONN-26", "CONN-32", "DTO-34", "LIFE-1*", "SP-23")
PROGRAMS = "dtest-b65536,dtestcm-50,dapltest-T-4x8-mix,dapltest-Q,dtestx,@srq"


def judge(options: argparse.Namespace, seen: pathlib.Path, conf: pathlib.Path) -> bool:
    """`seen` is the build as all users see it."""
    program = seen / options.conformance.resolve().relative_to(options.build_root.resolve())
    suite: list[object] = [program, "--ia", "soft-lo", "--threadsafe", "--peer-user", USER,
                           *PROMISED]
    for case in CASES:
        suite += ["--case", case]
    clients = [sys.executable, options.run_clients, "--libdat2", seen / "dat", "--dat-conf", conf,
               "--adapter", "soft-lo", "--server-user", USER, "--select", PROGRAMS]
    environment = {**os.environ, "DAT_OVERRIDE": str(conf), "LD_LIBRARY_PATH": str(seen / "dat")}
    statuses = [subprocess.run([str(word) for word in command], env=environment,
                               check=False).returncode for command in (suite, clients)]
    return statuses[0] == 0 and statuses[1] in (0, SKIPPED)


def in_namespace(options: argparse.Namespace) -> int:
    """Runs where mounts are seen by this process and its children only."""
    build = options.build_root.resolve()
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder).chmod(0o755)
        seen = pathlib.Path(folder) / "build"
        conf = pathlib.Path(folder) / "dat.conf"
        seen.mkdir()
        conf.write_text(options.dat_conf.read_text().replace(f"{build}/", f"{seen}/"))
        subprocess.run(["mount", "--bind", build, seen], check=True)
        try:
            return 0 if judge(options, seen, conf) else 1
        finally:
            subprocess.run(["umount", "--lazy", seen], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conformance", type=pathlib.Path, required=True, metavar="PROGRAM")
    parser.add_argument("--run-clients", type=pathlib.Path, required=True, metavar="PROGRAM")
    parser.add_argument("--dat-conf", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--build-root", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--unshared", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.unshared:
        return in_namespace(options)
    unshare = ["unshare", "--mount", "--"]
    tried = subprocess.run([*unshare, "true"], capture_output=True, text=True, check=False)
    if os.geteuid() != 0 or tried.returncode != 0:
        print(f"skipped: a mount namespace needs root: {tried.stderr.strip()}")
        return SKIPPED
    return subprocess.run([*unshare, sys.executable, *sys.argv, "--unshared"],
                          check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
