#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Run the rounds of guest.sh over devices of the virtual machine, in one boot.

Ends with 77 if no machine can run here, and says why. The scorecards stay in OUT, which is in the
build folder by default.
"""

import argparse
import pathlib
import shlex
import subprocess
import sys

ROUNDS = {
    "rxe0": ("device", "suppressed", "clients=@vm,@srq,dtestx", "switches", "instructions", "calls",
             "conformance", "conformance12", "tcp", "jobs", "stress=120", "ofed", "ofed12", "removal"),
    "siw0": ("device", "suppressed", "clients=@vm", "switches", "instructions", "calls",
             "conformance", "conformance12", "jobs", "stress=120", "ofed", "ofed12", "removal"),
}
# With another kernel than this system's: what may differ by it.
OF_KERNEL = {
    "rxe0": ("device", "clients=@vm,@srq,dtestx", "conformance", "tcp=CONN-*", "stress=120",
             "removal"),
    "siw0": ("device", "clients=@vm", "conformance", "stress=120", "removal"),
}
QUICK = {
    "rxe0": ("suppressed", "conformance=SRQ-0*", "tcp=CONN-0*"),
    "siw0": ("conformance=CONN-0*",),
}
SECONDS = 2400  # a busy host may need ten times what a quiet one does
SKIPPED = 77


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run-in-vm", type=pathlib.Path, required=True, metavar="PROGRAM")
    parser.add_argument("--build", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--source", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--device", choices=ROUNDS, action="append", required=True,
                        help="may be repeated")
    parser.add_argument("--quick", action="store_true", help="the short form of the rounds")
    parser.add_argument("--kernel", help="of the machine, as run-in-vm has it; fewer rounds")
    parser.add_argument("--seconds", type=int, default=SECONDS,
                        help="how long all may take (%(default)s)")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR")
    parser.add_argument("rounds", nargs="*", help="instead of those that are usual")
    return parser.parse_args()


def main() -> int:
    options = parse()
    kernel = ["--kernel", options.kernel] if options.kernel else []
    able = subprocess.run([options.run_in_vm, *kernel, "--check"], check=False)
    if able.returncode == SKIPPED:
        return SKIPPED
    out = (options.out or options.build / "tests" / "verbs" /
           "-".join(["out", *kernel[1:]])).resolve()
    out.mkdir(parents=True, exist_ok=True)
    return subprocess.run(
        [options.run_in_vm, *kernel, "--timeout", str(options.seconds), "--writable", out, "--",
         "bash", "-c", script(options, out)], check=False).returncode


def script(options: argparse.Namespace, out: pathlib.Path) -> str:
    """What the machine runs: one device after the other, whatever fails."""
    guest = pathlib.Path(__file__).resolve().with_name("guest.sh")
    usual = QUICK if options.quick else OF_KERNEL if options.kernel else ROUNDS
    runs = [shlex.join(map(str, (guest, options.build, options.source, out, device,
                                 *(options.rounds or usual[device]))))
            for device in options.device]
    return "; ".join(["status=0", *(f"{run} || status=1" for run in runs), "exit $status"])


if __name__ == "__main__":
    sys.exit(main())
