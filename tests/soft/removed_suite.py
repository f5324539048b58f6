#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Judge the software HCA whose network interface is removed, and then is back.

Ends with 77 where network namespaces cannot be made, and says why.
"""

import argparse
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "clients"))
import two_hosts  # noqa: E402

SKIPPED = 77


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conformance", type=pathlib.Path, required=True, metavar="PROGRAM")
    parser.add_argument("--dat-conf", type=pathlib.Path, required=True, metavar="FILE")
    options, more = parser.parse_known_args()
    try:
        with two_hosts.TwoHosts() as hosts:
            suite = [*two_hosts.enter(hosts.client), str(options.conformance), "--ia", "soft-lo",
                     *more]
            env = {**os.environ, "DAT_OVERRIDE": str(hosts.dat_conf(options.dat_conf))}
            # Something is told of another interface once the adapter has failed.
            remove = ["--fail-device", f"ip link delete {two_hosts.INTERFACE}; sleep 0.2; "
                                       "ip link set lo mtu 32768"]
            status = subprocess.run([*suite, *remove], env=env, check=False).returncode
            hosts.lay_cable()
            again = subprocess.run([*suite, "--case", "DTO-01"], env=env, check=False).returncode
    except two_hosts.CannotRun as reason:
        print(f"skipped: a network interface to remove cannot be made: {reason}")
        return SKIPPED
    return status or again


if __name__ == "__main__":
    sys.exit(main())
