#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The programs that measure our own layer: their results and exit statuses."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

OPTIONS = argparse.Namespace()
TESTS = {"latency", "waiting", "CNO", "rate", "connections"}


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([getattr(OPTIONS, program), *map(str, arguments)], capture_output=True,
                          text=True, env={**os.environ, "DAT_OVERRIDE": str(OPTIONS.dat_conf)},
                          timeout=150, check=False)


def has(adapter: str) -> bool:
    return f"\n{adapter} " in pathlib.Path(OPTIONS.dat_conf).read_text()


class Measures(unittest.TestCase):
    def measure(self, program: str, *arguments: object) -> list[dict[str, object]]:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            data = pathlib.Path(folder) / "out.json"
            done = run(program, *arguments, "--json", data)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return json.loads(data.read_text())["results"]

    def overhead(self, *arguments: object) -> dict[tuple[str, str], float]:
        """Maps each test and its counterpart to the ratio over all pairs of batches."""
        results = self.measure("overhead", *arguments, "--batches", 4, "--iterations", 20,
                               "--warmup", 2)
        for each in results:
            for value in ("dat", "other", "time_ratio"):
                self.assertGreater(each[value], 0, each)
        return {(each["test"], each["beside"]): each["time_ratio"] for each in results}

    def test_an_adapter_beside_others(self) -> None:
        if not has("soft-lo"):
            self.skipTest("the build has no soft-lo")
        got = self.overhead("soft-lo", "--tests", "latency,rate,bandwidth,waiting",
                            "--beside", "tcp,udp-socket")
        self.assertEqual(set(got), {("latency", "UDP sockets"), ("latency", "libfabric tcp"),
                                    ("rate", "libfabric tcp"), ("RDMA write", "libfabric tcp")})

    def test_two_adapters(self) -> None:
        if not has("soft-lo") or not has("ofi-lo"):
            self.skipTest("the build has no two adapters")
        got = self.overhead("soft-lo", "ofi-lo", "--tests", "latency,waiting,cno,rate,connections")
        self.assertEqual(set(got), {(test, "ofi-lo") for test in TESTS})

    def test_adapters_beside_one(self) -> None:
        """Compares adapters given with --beside like positional ones."""
        if not has("soft-lo") or not has("ofi-lo"):
            self.skipTest("the build has no two adapters")
        got = self.overhead("soft-lo", "--beside", "ofi-lo,tcp")
        self.assertEqual(set(got), {("latency", "ofi-lo"), ("latency", "libfabric tcp")})

    def test_memory_that_is_spun_on(self) -> None:
        if not has("soft-lo") or not has("ofi-lo"):
            self.skipTest("the build has no two adapters")
        got = self.overhead("soft-lo", "ofi-lo", "--tests", "write-spin,write-reap")
        self.assertEqual(set(got), {("write-spin", "ofi-lo"), ("write-reap", "ofi-lo")})

    def test_two_pairs_at_once(self) -> None:
        if not has("soft-lo") or not has("ofi-lo"):
            self.skipTest("the build has no two adapters")
        got = self.overhead("soft-lo", "ofi-lo", "--tests", "latency,waiting", "--pairs", 2)
        self.assertEqual(set(got), {("latency", "ofi-lo"), ("waiting", "ofi-lo")})

    def test_a_provider_without_connections(self) -> None:
        if not has("ofi-rdm-shm"):
            self.skipTest("the build has no ofi-rdm-shm")
        for adapter, other in (("ofi-rdm-shm", "shm"), ("ofi-rdm-tcp", "rxm")):
            got = self.overhead(adapter, "--beside", other, "--tests", "latency,bandwidth")
            self.assertEqual({test for test, _ in got}, {"latency", "RDMA write"})

    def test_a_limit(self) -> None:
        if not has("ofi-lo"):
            self.skipTest("the build has no ofi-lo")
        done = run("overhead", "--batches", 4, "--iterations", 20, "--limit", 0.00001)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("is above the limit of ", done.stdout)

    def test_many_endpoints(self) -> None:
        if not has("soft-lo"):
            self.skipTest("the build has no soft-lo")
        got = self.measure("many_endpoints", "soft-lo", "--connections", "1,20", "--messages", 100,
                           "--rounds", 1)
        self.assertEqual([each["connections"] for each in got], [1, 20])
        for each in got:
            for value in ("bytes_each", "message_all_us", "message_one_us"):
                self.assertGreater(each[value], 0, each)


class Ends(unittest.TestCase):
    def test_wrong_usage(self) -> None:
        for program, *arguments in (["overhead", "--tests", "speed"], ["overhead", "--beside"],
                                    ["overhead", "--size", "2M"], ["many_endpoints"]):
            done = run(program, *arguments)
            self.assertEqual(done.returncode, 2, (program, arguments, done.stderr))

    def test_an_unknown_adapter(self) -> None:
        for arguments in (["overhead", "unknown"], ["overhead", "soft-lo", "--beside", "unknown"],
                          ["many_endpoints", "unknown"]):
            done = run(*arguments)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("DAT_PROVIDER_NOT_FOUND", done.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--overhead", required=True)
    parser.add_argument("--many-endpoints", required=True)
    parser.add_argument("--dat-conf", required=True)
    rest = parser.parse_known_args(namespace=OPTIONS)[1]
    program = unittest.main(argv=[sys.argv[0], *rest], exit=False)
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
