#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Run a fuzzer for some seconds, from its seeds. Inputs that it finds are kept and named.

A file of seeds has one input in a line, in hexadecimal; a line that starts with # is a comment. The
file stays as it is; with --merge it gets the inputs of this run that reach more.
"""

import argparse
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile


def read_seeds(file: pathlib.Path) -> list[bytes]:
    lines = file.read_text().splitlines()
    return [bytes.fromhex(line) for line in lines if line and not line.startswith("#")]


def write_seeds(file: pathlib.Path, seeds: list[bytes]) -> None:
    head = [line for line in file.read_text().splitlines() if line.startswith("#")]
    file.write_text("\n".join(head + sorted(seed.hex() for seed in seeds)) + "\n")


def unpack(seeds: list[bytes], folder: pathlib.Path) -> None:
    """Write each seed to a file of its own, which is what libFuzzer reads."""
    folder.mkdir()
    for seed in seeds:
        (folder / hashlib.sha1(seed).hexdigest()).write_bytes(seed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fuzzer", type=pathlib.Path, required=True)
    parser.add_argument("--seeds", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--merge", action="store_true")
    parser.add_argument("--threads", action="store_true",
                        help="threads run when the fuzzer exits: leaks are not looked for, as"
                             " LeakSanitizer may crash then")
    options = parser.parse_args()
    findings = options.fuzzer.with_name(options.fuzzer.name + "-findings")
    findings.mkdir(exist_ok=True)
    environment = dict(os.environ)
    if options.threads:
        environment["ASAN_OPTIONS"] = "detect_leaks=0"
    with tempfile.TemporaryDirectory(prefix="fuzz-") as work:
        fresh, corpus = pathlib.Path(work) / "fresh", pathlib.Path(work) / "corpus"
        fresh.mkdir()
        unpack(read_seeds(options.seeds), corpus)
        done = subprocess.run(
            [options.fuzzer, fresh, corpus, f"-max_total_time={options.seconds}",
             f"-artifact_prefix={findings}/", "-timeout=30", "-print_final_stats=1"],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
            env=environment, check=False)
        print(done.stdout[-4000:])
        if options.merge and done.returncode == 0:
            subprocess.run([options.fuzzer, "-merge=1", corpus, fresh], check=True)
            write_seeds(options.seeds, [file.read_bytes() for file in corpus.iterdir()])
    if done.returncode != 0:
        kept = sorted(findings.iterdir(), key=lambda file: file.stat().st_mtime)
        print(f"{options.fuzzer.name}: status {done.returncode}; to repeat it: "
              f"{options.fuzzer} {kept[-1] if kept else ''}")
    return 1 if done.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
