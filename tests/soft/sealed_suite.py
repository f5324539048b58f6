#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Judge soft-udp with a key, and see that it does not open with a file that is none.

Runs those cases of the conformance suite that connect and move data.
"""

import argparse
import os
import pathlib
import secrets
import subprocess
import sys
import tempfile

CASES = ("CONN-*", "CR-*", "DTO-*", "EXT-*", "LIFE-0*", "LIFE-24", "LIFE-27")
NOT_OPENED = 3  # exit status of dapl-conformance


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conformance", type=pathlib.Path, required=True, metavar="PROGRAM")
    parser.add_argument("--dat-conf", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--libdat2", type=pathlib.Path, required=True, metavar="DIR")
    return parser.parse_args()


class Adapter:
    """soft-udp with the key in a file of this folder."""

    def __init__(self, options: argparse.Namespace, folder: pathlib.Path) -> None:
        self.key = folder / "key"
        self.conf = folder / "dat.conf"
        self.options = options
        lines = [line for line in options.dat_conf.read_text().splitlines()
                 if line.startswith("soft-udp ")]
        text = "".join(line.replace('direct=0"', f'direct=0 key_file={self.key}"') + "\n"
                       for line in lines)
        if str(self.key) not in text:
            raise SystemExit(f"sealed_suite: {options.dat_conf} has no adapter soft-udp")
        self.conf.write_text(text)

    def run(self, cases: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        command = [str(self.options.conformance), "--ia", "soft-udp"]
        for case in cases:
            command += ["--case", case]
        environment = {**os.environ, "DAT_OVERRIDE": str(self.conf),
                       "LD_LIBRARY_PATH": str(self.options.libdat2)}
        return subprocess.run(command, env=environment, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)

    def is_refused(self, why: str) -> bool:
        done = self.run(("IA-01",))
        if done.returncode == NOT_OPENED and why in done.stdout:
            return True
        print(f"wanted: not opened, and \"{why}\"; status {done.returncode}", done.stdout, sep="\n")
        return False


def main() -> int:
    options = parse()
    with tempfile.TemporaryDirectory() as folder:
        adapter = Adapter(options, pathlib.Path(folder))
        good = adapter.is_refused("No such file")
        adapter.key.write_bytes(secrets.token_bytes(31))
        adapter.key.chmod(0o600)
        good = adapter.is_refused("less than 32 bytes") and good
        adapter.key.write_text(secrets.token_hex(32) + "\n")
        adapter.key.chmod(0o640)
        good = adapter.is_refused("chmod 600") and good
        adapter.key.chmod(0o600)
        done = adapter.run(CASES)
        print(done.stdout)
        return 0 if good and done.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
