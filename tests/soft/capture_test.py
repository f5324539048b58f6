#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""DAPL_TRACE_PCAP: the traced library writes the datagrams of its sockets to a file, no other does."""

import argparse
import collections
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import captures

TRACED = "soft-udp-traced"
options = argparse.Namespace()


class Capture(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="capture-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "file.pcapng"

    def run_traffic(self, adapter: str = TRACED, parameters: str = "",
                    file: pathlib.Path | None = None) -> str:
        conf = captures.dat_conf(options.dat_conf, adapter, self.folder, parameters)
        return captures.run_traffic(options.traffic, conf, adapter, file or self.file)[1]

    def datagrams(self) -> list[captures.Datagram]:
        return captures.read(self.file)[1]

    def check_whole(self, found: list[captures.Datagram]) -> None:
        """Both ends are in one process: all that is sent is received, at the same addresses."""
        passed = collections.defaultdict(collections.Counter)
        for each in found:
            self.assertEqual(each.original, len(each.ip))
            passed[each.flags][each.ends, each.payload] += 1
        self.assertEqual(passed.keys(), {captures.SENT, captures.RECEIVED})
        self.assertEqual(passed[captures.RECEIVED] - passed[captures.SENT], collections.Counter())
        payloads = b"".join(payload for _, payload in passed[captures.RECEIVED])
        for text in (b"a request's data", b"the accept's", b"no, please"):
            self.assertIn(text, payloads)
        times = [each.time_ns for each in found]
        self.assertLess(max(times) - min(times), 3600 * 10**9)
        self.assertLess(abs(self.file.stat().st_mtime - times[0] / 1e9), 3600)

    def test_ipv4(self) -> None:
        self.run_traffic()
        found = self.datagrams()
        self.check_whole(found)
        for each in found:
            self.assertEqual(captures.internet_sum(each.ip[:20]), 0xffff)
            self.assertEqual(int.from_bytes(each.ip[2:4], "big"), len(each.ip))
            self.assertEqual(int.from_bytes(each.udp[4:6], "big"), len(each.udp))
            self.assertEqual((each.ends[0], each.ends[2]), ("127.0.0.1", "127.0.0.1"))
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o600)

    def test_ipv6(self) -> None:
        if not pathlib.Path("/proc/net/if_inet6").exists():
            self.skipTest("there is no IPv6")
        self.run_traffic(parameters="family=6")
        found = self.datagrams()
        self.check_whole(found)
        for each in found:
            self.assertEqual((each.ends[0], each.ends[2]), ("::1", "::1"))
            pseudo = each.ip[8:40] + len(each.udp).to_bytes(4, "big") + (17).to_bytes(4, "big")
            self.assertEqual(captures.internet_sum(pseudo + each.udp), 0xffff)

    def test_checksums_and_a_bad_network(self) -> None:
        """What is lost or changed behind the socket is in the file as it came."""
        self.run_traffic(parameters="checksum=1 loss=100 corrupt=100 seed=3")
        self.check_whole(self.datagrams())

    def test_many_processes(self) -> None:
        """All append to one file, and no block is torn."""
        environment = {**os.environ, "DAT_OVERRIDE": str(options.dat_conf),
                       "DAPL_TRACE_PCAP": str(self.file)}
        many = [subprocess.Popen([options.traffic, TRACED], env=environment,
                                 stdout=subprocess.DEVNULL) for _ in range(3)]
        self.assertEqual([each.wait() for each in many], [0, 0, 0])
        sections, found = captures.read(self.file)
        self.assertEqual(sections, 3)
        self.check_whole(found)

    def refuses(self, file: pathlib.Path, why: str) -> None:
        self.assertIn(f"DAPL_TRACE_PCAP: {file} cannot be written: {why}", self.run_traffic(file=file))

    def test_files_that_are_left_alone(self) -> None:
        link, other, pipe = (self.folder / name for name in ("link", "other", "pipe"))
        other.write_text("mine\n")
        link.symlink_to(other)
        os.mkfifo(pipe)
        self.refuses(link, "it is a link")
        self.refuses(other, "it has something else than a pcapng in it")
        self.refuses(pipe, "it is no file")
        self.refuses(self.folder / "none" / "file", "No such file or directory")
        self.assertEqual(other.read_text(), "mine\n")

    def test_off(self) -> None:
        """Without the variable, and in the library that is not traced."""
        conf = captures.dat_conf(options.dat_conf, TRACED, self.folder)
        captures.run_traffic(options.traffic, conf, TRACED, None)
        self.run_traffic(adapter="soft-udp")
        self.assertFalse(self.file.exists())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traffic", type=pathlib.Path, required=True, metavar="PROGRAM")
    parser.add_argument("--dat-conf", type=pathlib.Path, required=True, metavar="FILE")
    parser.parse_args(namespace=options)
    unittest.main(argv=sys.argv[:1], verbosity=1)


if __name__ == "__main__":
    main()
