#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Judge the software HCA over a path that drops large packets without an ICMP error.

Without the discovery of the path's limit this case has to fail, or the path was not narrow. Ends
with 77 if such a path cannot be made, and says why.
"""

import argparse
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "clients"))
import two_hosts  # noqa: E402
from bad_network import SKIPPED  # noqa: E402

MTU = 1400
CASE = "LIFE-11"  # two processes move data both ways


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conformance", type=pathlib.Path, required=True, metavar="PROGRAM")
    parser.add_argument("--dat-conf", type=pathlib.Path, required=True, metavar="FILE")
    options = parser.parse_args()
    try:
        with two_hosts.TwoHosts(narrow=MTU) as hosts:
            def passes(parameters: str) -> bool:
                conf = hosts.dat_conf(options.dat_conf, parameters)
                suite = [*two_hosts.enter(hosts.client), str(options.conformance), "--ia",
                         "soft-lo", "--peer-network", f"/proc/{hosts.server}/ns/net",
                         "--case", CASE]
                return subprocess.run(suite, env={**os.environ, "DAT_OVERRIDE": str(conf)},
                                      check=False).returncode == 0

            if not passes(""):
                return 1
            if passes(" path_mtu=0 retries=5"):
                print("the path was not narrow: the case passes without path_mtu, too")
                return 1
    except two_hosts.CannotRun as reason:
        print(f"skipped: such a path cannot be made: {reason}")
        return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
