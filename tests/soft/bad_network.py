#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Judge the software HCA on a network that loses, reorders, repeats and alters.

For each seed: the conformance suite, Debian's dapltest with validation of its data, and the stress
program if --hammer names it; with --sealed over a device with a key. Ends with 1 at the first seed
that fails, and shows its output.
"""

import argparse
import os
import pathlib
import secrets
import subprocess
import sys
import tempfile

SKIPPED = 77  # exit status of run_clients.py
PATIENCE = "100"  # seconds; on a busy machine what polls during losses waits for the processor
STRESS = ("--seconds", "5")
# What the software HCA promises on every path, as options of the suite.
PROMISED = tuple(word for promise in ("acknowledged", "final_byte_last", "local_protection",
                                      "unmapped_memory") for word in ("--promise", promise))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conformance", type=pathlib.Path, required=True, metavar="PROGRAM")
    parser.add_argument("--run-clients", type=pathlib.Path, required=True, metavar="PROGRAM")
    parser.add_argument("--libdat2", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--dat-conf", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--hammer", type=pathlib.Path, metavar="PROGRAM")
    parser.add_argument("--sealed", action="store_true")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="1 to N (default: 1)")
    parser.add_argument("--preload", action="append", default=[], metavar="LIB",
                        help="as run_clients.py has it")
    parser.add_argument("--per-mille", type=int, nargs=4, default=(50, 20, 10, 1),
                        metavar=("LOSS", "REORDER", "DUPLICATE", "CORRUPT"),
                        help="default: 50 20 10 1")
    return parser.parse_args()


def bad_dat_conf(original: pathlib.Path, network: str) -> str:
    """soft-udp alone, with these options."""
    lines = [line for line in original.read_text().splitlines() if line.startswith("soft-udp ")]
    if not lines:
        raise SystemExit(f"bad_network: {original} has no adapter soft-udp")
    return "".join(line.replace('direct=0"', f'direct=0 {network}"') + "\n" for line in lines)


def make_key(folder: str) -> pathlib.Path:
    key = pathlib.Path(folder) / "key"
    key.write_text(secrets.token_hex(32) + "\n")
    key.chmod(0o600)
    return key


def judge(what: str, command: list[object], environment: dict[str, str]) -> int:
    done = subprocess.run([str(word) for word in command], env=environment, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    lines = done.stdout.splitlines()
    if done.returncode in (0, SKIPPED):
        print(f"{what}: {lines[-1] if done.returncode else 'passed'}", flush=True)
    else:
        print(f"{what}: failed, status {done.returncode}", *lines, sep="\n", flush=True)
    return done.returncode


def main() -> int:
    options = parse()
    loss, reorder, duplicate, corrupt = options.per_mille
    for seed in range(1, options.seeds + 1):
        network = (f"loss={loss} reorder={reorder} duplicate={duplicate} corrupt={corrupt}"
                   f" checksum=1 seed={seed}")
        with tempfile.TemporaryDirectory() as folder:
            key = f" key_file={make_key(folder)}" if options.sealed else ""
            conf = pathlib.Path(folder) / "dat.conf"
            conf.write_text(bad_dat_conf(options.dat_conf, network + key))
            if not is_judged_well(options, conf, "soft-udp", network + (", sealed" if key else "")):
                return 1
    return 0


def is_judged_well(options: argparse.Namespace, conf: pathlib.Path, adapter: str, title: str,
                   promised: tuple[str, ...] = ()) -> bool:
    """Runs the suite, dapltest, and the stress program if the options name it, over an adapter of
    this dat.conf, with promises beside PROMISED."""
    environment = {**os.environ, "DAT_OVERRIDE": str(conf),
                   "LD_LIBRARY_PATH": str(options.libdat2)}
    suite = [options.conformance, "--ia", adapter, "--patience", PATIENCE, *PROMISED, *promised]
    clients = [sys.executable, options.run_clients, "--libdat2", options.libdat2,
               "--dat-conf", conf, "--adapter", adapter, "--select", "dapltest-T-*"]
    for library in options.preload:
        clients += ["--preload", library]
    judged: list[tuple[str, list[object]]] = [("conformance", suite), ("dapltest", clients)]
    if options.hammer is not None:
        judged.append(("stress", [options.hammer, "--ia", adapter, *STRESS]))
    return all(judge(f"{title}: {what}", command, environment) in (0, SKIPPED)
               for what, command in judged)


if __name__ == "__main__":
    sys.exit(main())
