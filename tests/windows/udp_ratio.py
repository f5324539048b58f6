#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What the software HCA takes beside two polled sockets, on Linux and by Wine on the same machine.

A round is one run of udp-twin and one of dat-perf on each system, one after another, in turned
order every other round. Both send messages of 64 bytes to and fro between two processes that poll,
in batches of at most 200 round trips, for the same time. The figure of each is the mean of half a
round trip, over all of them but the first few: rare long ones count as what they cost. The ratio of
a round is dat-perf's figure over the twin's. Of all rounds the median and the quartiles are shown.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import windows_program

SECONDS = 60  # a program that takes longer hangs
SIZE = "64"


class System:
    """A build for a system, and the ratios that were measured there."""

    def __init__(self, name: str, build: pathlib.Path, suffix: str):
        self.name = name
        self.build = build
        self.suffix = suffix
        self.ratios: list[float] = []
        self.figures: list[tuple[float, float]] = []

    def environment(self) -> dict[str, str]:
        conf = self.build / "transports/dat.conf"
        if self.suffix:
            return windows_program.environment(conf, self.build / "dat", self.build / "transports")
        return {**os.environ, "DAT_OVERRIDE": str(conf),
                "LD_LIBRARY_PATH": str(self.build / "dat")}

    def report_of(self, program: str, *arguments: str) -> dict:
        path = self.build / "bench" / (program + self.suffix)
        words = (windows_program.command(path) if self.suffix else [str(path)])
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report.json"
            subprocess.run([*words, *arguments, "--size", SIZE, "--json", str(report)],
                           env=self.environment(), check=True, timeout=SECONDS,
                           stdout=subprocess.DEVNULL)
            return json.loads(report.read_text(encoding="utf-8"))

    def twin(self, seconds: float) -> float:
        return self.report_of("udp-twin", "--iterations", "200", "--duration",
                              str(seconds))["mean_us"]

    def adapter(self, seconds: float) -> float:
        report = self.report_of("dat-perf", "soft-udp", "--tests", "latency", "--duration",
                                str(seconds))
        polling = [each for each in report["results"] if each["how"] == "send, polling"]
        return polling[0]["mean"]

    def measure(self, seconds: float, adapter_first: bool) -> None:
        if adapter_first:
            adapter, twin = self.adapter(seconds), self.twin(seconds)
        else:
            twin, adapter = self.twin(seconds), self.adapter(seconds)
        self.figures.append((twin, adapter))
        self.ratios.append(adapter / twin)
        print(f"{self.name:8} twin {twin:8.2f} us  soft-udp {adapter:8.2f} us  "
              f"ratio {adapter / twin:5.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--linux", type=pathlib.Path, required=True, metavar="BUILD")
    parser.add_argument("--windows", type=pathlib.Path, required=True, metavar="BUILD")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    options = parser.parse_args()
    systems = [System("Linux", options.linux, ""), System("Windows", options.windows, ".exe")]
    for number in range(options.rounds):
        for system in systems[::1 if number % 2 == 0 else -1]:
            system.measure(options.seconds, number % 2 != 0)
    for system in systems:
        low, middle, high = statistics.quantiles(system.ratios, n=4, method="inclusive")
        twin, adapter = (statistics.median(each) for each in zip(*system.figures))
        print(f"{system.name}: ratio {middle:.2f} ({low:.2f} to {high:.2f}), "
              f"soft-udp {adapter:.1f} us, two sockets {twin:.1f} us, {len(system.ratios)} rounds")


if __name__ == "__main__":
    sys.exit(main())
