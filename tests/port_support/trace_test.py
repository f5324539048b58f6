#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The output of a traced port: each operation once, with its answer, in a file for all."""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

LINE = re.compile(r" *(?P<at>\d+\.\d{6}) (?P<thread>\d+) (?P<mark>[<>-]) (?P<what>(?:upcall )?\w+)"
                  r"(?P<rest>.*)")
options = argparse.Namespace()


def suite(case: str, trace: str | None, *more: str) -> subprocess.CompletedProcess:
    environment = {name: value for name, value in os.environ.items() if name != "DAPL_TRACE"}
    if trace is not None:
        environment["DAPL_TRACE"] = trace
    return subprocess.run([options.conformance, "--ia", "soft-lo-traced", "--case", case,
                           *more],
                          env=environment, text=True, capture_output=True, check=False)


class Trace(unittest.TestCase):
    def traced(self, case: str) -> list[re.Match]:
        with tempfile.TemporaryDirectory(prefix="trace-") as folder:
            file = pathlib.Path(folder) / "log"
            done = suite(case, str(file))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            lines = [LINE.fullmatch(line) for line in file.read_text().splitlines()]
        self.assertTrue(lines)
        self.assertNotIn(None, lines)
        return [line for line in lines if line]

    def test_a_message(self) -> None:
        """DTO-01 sends messages: who posts them with which length and cookie, and what completes."""
        lines = self.traced("DTO-01")
        text = "\n".join(f"{line['mark']} {line['what']}{line['rest']}" for line in lines)
        for wanted in (
                r"> open_hca\(\w+, \"soft-lo-traced\", \"lo\"\)\n", r"< open_hca = success, ",
                r"> upcall cr_callback\(", r"< upcall cr_callback = true, ",
                r"> upcall evd_connection_callback\(\w+, DAT_CONNECTION_EVENT_ESTABLISHED, ",
                r"- post_send\(\w+, \{DAT_DTO_SEND, 64 bytes, cookie \w+\}, 1, .*\) = success, ",
                r"- completion_poll\(\w+, \{\{DAT_DTO_RECEIVE, 32768 bytes, cookie \w+\}: "
                r"DAT_DTO_SUCCESS, 64 bytes\}\), ",
                r"> qp_free\(\w+\)\n"):
            self.assertRegex(text, wanted)

    def test_what_begins_ends(self) -> None:
        lines = self.traced("CONN-0*")
        inside: dict[str, list[str]] = collections.defaultdict(list)
        for line in lines:
            if line["mark"] == ">":
                inside[line["thread"]].append(line["what"])
            elif line["mark"] == "<":
                self.assertEqual(inside[line["thread"]].pop(), line["what"])
        self.assertFalse([calls for calls in inside.values() if calls])

    def test_what_is_made_is_freed(self) -> None:
        """Objects that a passing case makes are freed. Opening fails when an adapter's name is
        tried.
        """
        calls = collections.Counter(line["what"] for line in self.traced("EP-0*")
                                    if line["mark"] == "<" and "= DAT_" not in line["rest"])
        for kind in ("pd", "cq", "qp"):
            self.assertEqual(calls[f"{kind}_alloc"], calls[f"{kind}_free"], calls)
        self.assertGreater(calls["qp_alloc"], 10)

    def test_a_refusal(self) -> None:
        lines = self.traced("MEM-14")
        self.assertIn("mr_register", {line["what"] for line in lines
                                      if line["rest"].startswith(" = DAT_")})

    def test_a_file_that_cannot_be_written(self) -> None:
        done = suite("DTO-01", "/nonexistent/trace", "--in-process")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("DAPL_TRACE: /nonexistent/trace cannot be written: No such file or directory",
                      done.stdout + done.stderr)

    def test_a_link(self) -> None:
        """A link in place of the file may be another's: it is left alone."""
        with tempfile.TemporaryDirectory(prefix="trace-") as folder:
            file, link = pathlib.Path(folder) / "file", pathlib.Path(folder) / "link"
            file.write_text("mine\n")
            link.symlink_to(file)
            done = suite("DTO-01", str(link), "--in-process")
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn(f"DAPL_TRACE: {link} cannot be written: it is a link",
                          done.stdout + done.stderr)
            self.assertEqual(file.read_text(), "mine\n")

    def test_on_standard_error(self) -> None:
        done = suite("DTO-01", "-", "--in-process")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stderr, r"> open_hca\(.*\n.*< open_hca = success")

    def test_off(self) -> None:
        done = suite("DTO-01", None)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("open_hca", done.stdout + done.stderr)

    def test_probes(self) -> None:
        """One for each operation and upcall, where the header for them is installed."""
        if options.probes != "yes":
            self.skipTest("sys/sdt.h is not installed")
        notes = subprocess.run(["readelf", "--notes", "--wide", options.library], text=True,
                               capture_output=True, check=True).stdout
        names = set(re.findall(r"Provider: dapl\s+Name: (\w+)", notes))
        self.assertLessEqual({"post_send", "completion_poll", "qp_free", "connect",
                              "evd_connection_callback", "cr_callback"}, names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conformance", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--probes", choices=("yes", "no"), default="no")
    parser.parse_args(namespace=options)
    unittest.main(argv=sys.argv[:1], verbosity=1)


if __name__ == "__main__":
    main()
