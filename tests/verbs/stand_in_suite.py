#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs the conformance suite over the verbs port on the stand-in, a device without hardware.

With --failing it runs the case for which the device has to fail.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

NAME = "verbs-stand-in"


def registry(port, params):
    lines = (f'{NAME} u2.0 {safety} default {port} dapl.2.0 "standin0 1 {params}" ""\n'
             for safety in ("nonthreadsafe", "threadsafe"))
    return "".join(lines)


def surroundings(folder, port, params, stand_in):
    """The environment of a program that is to find this adapter."""
    conf = pathlib.Path(folder, "dat.conf")
    conf.write_text(registry(port, params), encoding="utf-8")
    # The library is loaded before the program's own, so that its calls come first.
    return {**os.environ, "DAT_OVERRIDE": str(conf), "LD_PRELOAD": str(stand_in)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--conformance", "--stand-in", "--port", "--waivers"):
        parser.add_argument(option, required=True, type=pathlib.Path)
    parser.add_argument("--failing", action="store_true")
    parser.add_argument("--params", default="", help="parameters of the adapter")
    args, others = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        gone = pathlib.Path(folder, "gone")
        env = surroundings(folder, args.port, args.params, args.stand_in)
        if args.failing:
            env["STAND_IN_FAILS_WITH"] = str(gone)
            others += ["--fail-device", f"touch {gone}"]
        return subprocess.run([args.conformance, "--ia", NAME, "--waivers", args.waivers,
                               "--keep-loaded", "librdmacm.so.1", *others],
                              env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
