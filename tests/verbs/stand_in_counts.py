#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Counts the instructions of calls over the verbs port on the stand-in, a device without hardware.

What the device executes is in the column of the transport. Other options are those of
`instructions`.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

from stand_in_suite import NAME, surroundings


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--instructions", "--stand-in", "--port"):
        parser.add_argument(option, required=True, type=pathlib.Path)
    args, others = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([sys.executable, args.instructions, NAME, *others],
                              env=surroundings(folder, args.port, "", args.stand_in),
                              check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
