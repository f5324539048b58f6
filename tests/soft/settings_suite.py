#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Judge the software HCA inside a host with settings that take other ways than the defaults.

For each: the conformance suite, Debian's dapltest with validation of its data, and the stress
program if --hammer names it. Ends with 1 at the first that fails, and shows its output.
"""

import argparse
import pathlib
import sys
import tempfile

from bad_network import is_judged_well

# Each setting has promises beside PROMISED.
SETTINGS = {
    "rings=1": (),
    "rings=0": (),
    "safe_copies=1": ("--promise", "unmapped_messages"),
}


def dat_conf_with(original: pathlib.Path, setting: str) -> str:
    """soft-lo alone, with this option."""
    lines = [line for line in original.read_text().splitlines() if line.startswith("soft-lo ")]
    if not lines:
        raise SystemExit(f"settings_suite: {original} has no adapter soft-lo")
    return "".join(line.replace('"lo"', f'"lo {setting}"') + "\n" for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conformance", type=pathlib.Path, required=True, metavar="PROGRAM")
    parser.add_argument("--run-clients", type=pathlib.Path, required=True, metavar="PROGRAM")
    parser.add_argument("--libdat2", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--dat-conf", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--hammer", type=pathlib.Path, metavar="PROGRAM")
    parser.add_argument("--preload", action="append", default=[], metavar="LIB",
                        help="as run_clients.py has it")
    parser.add_argument("--setting", action="append", choices=list(SETTINGS),
                        help="default: all of them")
    options = parser.parse_args()
    for setting in options.setting or SETTINGS:
        with tempfile.TemporaryDirectory() as folder:
            conf = pathlib.Path(folder) / "dat.conf"
            conf.write_text(dat_conf_with(options.dat_conf, setting))
            if not is_judged_well(options, conf, "soft-lo", setting, SETTINGS[setting]):
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
