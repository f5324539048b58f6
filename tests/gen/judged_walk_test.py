#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Each step of the walk through docs/porting.md is built and judged.

In a copy of the tree a new port is filled in step by step. After each it compiles without a
warning; no case of the suite fails, and none waits for a part that is done; of each group as many
cases pass as walk_through.toml says, in all as many as the guide says; and those groups are green
that the guide promises, no others. `dapl-port status --results` says so. --renew writes the numbers
anew; which groups turn green is for its reader to say.
"""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True

from build_test import KIT_ONLY, MESON, WithFolder  # noqa: E402
from trees import dapl_port, run  # noqa: E402
import walk_through  # noqa: E402
from walk_through import steps  # noqa: E402

ADAPTER = f"{steps.NAME}-lo"
WAIVERS = steps.DEVICE / "waivers.json"
# Number of cases that may come or go before the numbers have to be written anew.
SLACK, SLACK_OF_GROUP = 6, 2
MOST_BY_PEERS = 16  # cases whose other process was refused: which call, they do not tell
RENEW = "--renew"
PLACES = steps.skeleton.places(steps.skeleton.Kit(steps.ROOT), steps.PORT)


class JudgedWalk(WithFolder):
    renew = False

    def setUp(self) -> None:
        if "DAPL_CONFORMANCE" not in os.environ:
            self.skipTest("DAPL_CONFORMANCE names no dapl-conformance")
        super().setUp()
        walk_through.new_port(self.tree)
        self.succeed(MESON, "setup", self.build, self.tree, f"-Dports={steps.NAME}", *KIT_ONLY)

    def judge(self, what: str) -> dict:
        """What status says with the results of the suite over the port as it is now."""
        self.succeed(MESON, "compile", "-C", self.build, "dat2", f"dapl-{steps.NAME}", "dat.conf")
        card = self.folder / "card.json"
        waivers = json.loads(WAIVERS.read_text())
        done = self.run_suite(card, waivers)
        refused = {each["rule"] for each in json.loads(card.read_text())["results"]
                   if each["outcome"] == "unexpected refusal"}
        if refused:  # a refused operation that is not written yet fails in no way that could be
                     # waived
            done = self.run_suite(card, [each for each in waivers if each["case"] not in refused])
        self.assertEqual(done.returncode, 0, f"{what}\n{done.stdout[-6000:]}{done.stderr[-3000:]}")
        told = json.loads(self.status(card, "--json"))
        self.expect_said(told, self.status(card))
        return told

    def run_suite(self, card: pathlib.Path, waivers: list[dict]) -> subprocess.CompletedProcess:
        file = self.folder / "waivers.json"
        file.write_text(json.dumps(waivers))
        return run(os.environ["DAPL_CONFORMANCE"], "--ia", ADAPTER, "--waivers", file,
                   "--json", card, LD_LIBRARY_PATH=str(self.build / "dat"),
                   DAT_OVERRIDE=str(self.build / "transports/dat.conf"))

    def status(self, card: pathlib.Path, *options: str) -> str:
        done = dapl_port(self.tree, "status", steps.NAME, "--results", card, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def expect_said(self, told: dict, text: str) -> None:
        """The text for eyes says of each group what the text for programs does."""
        for name, group in told["suite"]["groups"].items():
            line = text.split(f"\n    {name} ")[1].split("\n")[0]
            self.assertEqual("green: " in line, group["green"], text)
            for what in ("passed", "waiting", "waived"):
                self.assertEqual(f"{group[what]} {what}" in line, group[what] > 0, text)
        self.assertTrue(text.endswith(f"next: {told['next']}\n"), text)

    def test_each_step(self) -> None:
        rows, counts = walk_through.table(), {} if self.renew else walk_through.counts()
        self.assertEqual(len(rows), 1 + len(steps.steps()))
        wanted: list[str] = []
        places = lines = 0
        for row, step in zip(rows, (None, *steps.steps())):
            if step is not None:
                steps.apply_to(self.tree / f"transports/{steps.NAME}", step)
                places, lines = places + len(step.places), lines + step.lines
            wanted += row.green
            with self.subTest(step=row.title):
                told = self.judge(row.title)
                groups = told["suite"]["groups"]
                passed = {name: each["passed"] for name, each in groups.items()}
                if self.renew:
                    counts[row.title] = passed
                    row.places, row.lines, row.passed = places, lines, sum(passed.values())
                self.assertEqual(told["filled"], places)
                self.assertEqual(sum(each["failed"] for each in groups.values()), 0)
                self.expect_waiting(told)
                self.expect_passed(row, passed, counts.get(row.title, {}))
                self.assertEqual({name for name, each in groups.items() if each["green"]},
                                 set(wanted), f"green after {row.title}: {json.dumps(groups)}")
        if self.renew:
            walk_through.renew(rows, counts)

    def expect_waiting(self, told: dict) -> None:
        """Expects no waiting case for finished groups, some for the next, and none of an unknown
        group.
        """
        group_of = {name: each.group for name, each in PLACES.items()}
        left = list(dict.fromkeys(group_of[name] for name in told["places"]))
        waits = told["suite"]["waits"]
        self.assertLessEqual(set(waits), set(left), "cases wait for what is done")
        after_opening = [each for each in left if each != "hca"]  # opening is in the skeleton
        self.assertTrue(not after_opening or waits.get(after_opening[0], 0), waits)
        unknown = sum(each["waiting"] for each in told["suite"]["groups"].values()) - sum(
            waits.values())
        self.assertLessEqual(unknown, MOST_BY_PEERS, waits)

    def expect_passed(self, row: walk_through.Row, passed: dict[str, int],
                      promised: dict[str, int]) -> None:
        self.assertEqual(passed.keys(), promised.keys())
        for name, number in promised.items():
            self.assertLessEqual(abs(passed[name] - number), SLACK_OF_GROUP,
                                 f"{name} after {row.title}: {passed[name]} cases pass, {number}"
                                 f" in {walk_through.COUNTS}; if that is right, {RENEW}")
        self.assertLessEqual(abs(sum(passed.values()) - row.passed), SLACK,
                             f"after {row.title} {sum(passed.values())} cases pass, and"
                             f" {walk_through.GUIDE} says {row.passed}; if that is right, {RENEW}")


if __name__ == "__main__":
    JudgedWalk.renew = RENEW in sys.argv
    unittest.main(argv=[each for each in sys.argv if each != RENEW])
