#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""DAPL_DBG_TYPE: each class of dapl-environment(7) has lines of its own."""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import unittest

OPTIONS = argparse.Namespace()
HANDLE = r"0x[0-9a-f]+"

# Cases of the suite that come by a place of each class, and lines that the class has there.
LINES = {
    "ERR": (0x1, ["CONN-06"], [rf"EP {HANDLE}: no connection to .*: "]),
    "WARN": (0x2, ["CR-09"], [rf"a connection request .* is refused: EVD {HANDLE} is full"]),
    "EVD": (0x4, ["EVD-16", "EVD-23"], [
        rf"EVD {HANDLE}: created for \d+ events, streams 0x[0-9a-f]+",
        rf"EVD {HANDLE}: resize to \d+: 0x0",
        rf"EVD {HANDLE}: a wait for 1 events sleeps",
        rf"EVD {HANDLE}: its wait wakes",
        rf"EVD {HANDLE}: freed"]),
    "CM": (0x8, ["DTO-01"], [r"lo: of \d+ packets, \d+ went through rings"]),
    "EP": (0x10, ["DTO-01"], [
        rf"EP {HANDLE}: created in state DAT_EP_STATE_UNCONNECTED; EVDs: recv {HANDLE}",
        rf"EP {HANDLE}: DAT_EP_STATE_CONNECTED, was DAT_EP_STATE_ACTIVE_CONNECTION_PENDING",
        rf"EP {HANDLE}: queue pair 0x[0-9a-f]+ has \d+ receives of .* RDMA reads: 4 in, 4 out"]),
    "UTIL": (0x20, ["DTO-01"], [
        r"adapter soft-lo, nonthreadsafe: ia_params \"",
        rf"pool {HANDLE}: grows by \d+ objects of \d+ bytes"]),
    "CALLBACK": (0x40, ["DTO-01"],
                 [rf"EP {HANDLE}: connection event DAT_CONNECTION_EVENT_ESTABLISHED"]),
    "DTO_COMP_ERR": (0x80, ["DTO-17"], [rf"EP {HANDLE}: DAT_DTO_RECEIVE failed: "]),
    "API": (0x100, ["DTO-01"], [
        r"dat_ia_open\(soft-lo\)",
        rf"dat_ep_post_send\({HANDLE}, 1, {HANDLE}, 0x[0-9a-f]+, \d+\)",
        rf"dat_ia_close\({HANDLE}, \d+\)"]),
    "RTN": (0x200, ["DTO-01"], [
        rf"dat_ia_open\(soft-lo\): DAT_SUCCESS, gives {HANDLE}",
        rf"dat_pz_create\({HANDLE}\): DAT_SUCCESS, gives {HANDLE}",
        rf"dat_evd_(wait|dequeue)\({HANDLE}\): DAT_SUCCESS, gives DAT_DTO_COMPLETION_EVENT"]),
    "EXCEPTION": (0x400, ["DTO-17"],
                  [rf"EP {HANDLE}: DAT_CONNECTION_EVENT_BROKEN in state DAT_EP_STATE_CONNECTED"]),
}


def log_of(mask: int, cases: list[str]) -> list[str]:
    """What the provider says, without the names of the process and of its thread."""
    done = subprocess.run(
        [OPTIONS.program, "--ia", "soft-lo", "--in-process",
         "--test-case=" + ",".join(f"{case}:*" for case in cases)],
        capture_output=True, text=True, errors="replace", timeout=240, check=False,
        env={**os.environ, "DAT_OVERRIDE": str(OPTIONS.dat_conf), "DAPL_DBG_TYPE": hex(mask),
             "DAPL_DBG_DEST": "4"})
    return [found[1] for found in re.finditer(r"^dapl-soft: \d+\.\d+ (.*)$", done.stderr, re.M)]


class DebugClasses(unittest.TestCase):
    def test_each_class_has_its_lines(self) -> None:
        for name, (mask, cases, wanted) in LINES.items():
            with self.subTest(name):
                lines = log_of(mask, cases)
                for pattern in wanted:
                    self.assertTrue(any(re.match(pattern, line) for line in lines),
                                    f"no line like {pattern!r} in {lines[:40]}")

    def test_every_class_of_the_manual_is_asked_for(self) -> None:
        page = OPTIONS.page.read_text(encoding="utf-8").split("**DAPL_DBG_TYPE**")[1]
        masks = [int(mask, 16) for mask in re.findall(r"^ +\| (0x[0-9a-f]+) \|",
                                                      page.split("**DAPL_DBG_DEST**")[0], re.M)]
        self.assertEqual(masks, [mask for mask, _, _ in LINES.values()])

    def test_nothing_is_said_unasked(self) -> None:
        self.assertEqual(log_of(0, ["DTO-01", "DTO-17", "EVD-23"]), [])

    def test_an_empty_dequeue_is_not_logged(self) -> None:
        self.assertEqual([line for line in log_of(0x300, ["DTO-12"]) if "QUEUE_EMPTY" in line], [])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--dat-conf", type=pathlib.Path, required=True)
    parser.add_argument("--page", type=pathlib.Path, required=True)
    OPTIONS = parser.parse_args()
    unittest.main(argv=sys.argv[:1])
