#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Run a fuzzer for some seconds, from its corpus. What it finds is kept and named.

The corpus stays as it is; with --merge it gets what the run found that reaches more.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fuzzer", type=pathlib.Path, required=True)
    parser.add_argument("--corpus", type=pathlib.Path, required=True)
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
    with tempfile.TemporaryDirectory(prefix="fuzz-") as fresh:
        done = subprocess.run(
            [options.fuzzer, fresh, options.corpus, f"-max_total_time={options.seconds}",
             f"-artifact_prefix={findings}/", "-timeout=30", "-print_final_stats=1"],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
            env=environment, check=False)
        print(done.stdout[-4000:])
        if options.merge and done.returncode == 0:
            subprocess.run([options.fuzzer, "-merge=1", options.corpus, fresh], check=True)
    if done.returncode != 0:
        kept = sorted(findings.iterdir(), key=lambda file: file.stat().st_mtime)
        print(f"{options.fuzzer.name}: status {done.returncode}; to repeat it: "
              f"{options.fuzzer} {kept[-1] if kept else ''}")
    return 1 if done.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
