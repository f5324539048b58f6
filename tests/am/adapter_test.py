#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Ranks on several hosts pass over adapters at loopback addresses, though these come first."""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

CASE = "ranks on several hosts take one adapter, which is at no loopback address"
ADDRESS = "192.0.2.1"  # for documentation: no host has it


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    options = parser.parse_args()
    inside = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c",
              f'ip link set lo up && ip address add {ADDRESS}/32 dev lo && exec "$0" "$@"']
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode != 0:
        print("no network namespace for an address that is no loopback address")
        return 77
    conf = pathlib.Path(os.environ["DAT_OVERRIDE"]).read_text()
    near = next(line for line in conf.splitlines() if line.startswith("soft-lo u2.0 nonthreadsafe"))
    far = near.replace("soft-lo ", "soft-far ").replace('"lo"', f'"{ADDRESS}"')
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(f"{near}\n{far}\n")
        file.flush()
        command = [*inside, options.program, f"--test-case={CASE}"]
        environment = {**os.environ, "DAT_OVERRIDE": file.name, "AM_ADAPTER": "soft-far"}
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
