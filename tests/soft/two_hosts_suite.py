#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Judge the software HCA between two hosts: network namespaces joined by a veth pair.

Ends with 77 where they cannot be made, and says why.
"""

import argparse
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "clients"))
import two_hosts  # noqa: E402
from bad_network import PROMISED, SKIPPED  # noqa: E402

MANY = 100  # packets; the kernels by themselves exchange a few


def arrived_at(host: int) -> int:
    """Packets that came over the cable."""
    for line in pathlib.Path(f"/proc/{host}/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == two_hosts.INTERFACE:
            return int(numbers.split()[1])
    raise SystemExit(f"host {host} has no {two_hosts.INTERFACE}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conformance", type=pathlib.Path, required=True, metavar="PROGRAM")
    parser.add_argument("--dat-conf", type=pathlib.Path, required=True, metavar="FILE")
    options, more = parser.parse_known_args()
    try:
        with two_hosts.TwoHosts() as hosts:
            suite = [*two_hosts.enter(hosts.client), str(options.conformance), "--ia", "soft-lo",
                     "--peer-network", f"/proc/{hosts.server}/ns/net", *PROMISED, *more]
            conf = hosts.dat_conf(options.dat_conf)
            status = subprocess.run(suite, env={**os.environ, "DAT_OVERRIDE": str(conf)},
                                    check=False).returncode
            packets = arrived_at(hosts.server)
    except two_hosts.CannotRun as reason:
        print(f"skipped: two hosts cannot be made: {reason}")
        return SKIPPED
    print(f"{packets} packets came to the second host")
    if packets < MANY:
        print("the cases were not between two hosts")
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
