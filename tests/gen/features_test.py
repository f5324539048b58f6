#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""dapl-port features without a build: the order of runs, what numbers say, outputs, errors."""

import collections
import html.parser
import io
import json
import os
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True

from trees import ROOT, run  # noqa: E402

sys.path.insert(0, str(ROOT / "gen"))
sys.path.insert(0, str(ROOT / "bench"))
import flag_report  # noqa: E402
import flag_runs  # noqa: E402
import flag_worth  # noqa: E402
import instructions  # noqa: E402
import port_toml  # noqa: E402
import skeleton  # noqa: E402
from flag_worth import ALL, CONTROL  # noqa: E402

FLAGS = ["red", "green", "blue", "grey"]


def flag(counts: dict, ratio: float | None = None, spread: float = 0.0, bad: tuple = ()) -> dict:
    times = {} if ratio is None else {"latency": {
        "median": ratio, "low": ratio - spread, "high": ratio + spread, "pairs": 8, "with": 2.5,
        "unit": "us"}}
    suite = {side: {"outcomes": {"passed": 7}, "bad": list(bad)} for side in ("with", "without")}
    return {"text": "what <it> does", "off_too": [], "counts": counts, "times": times,
            "suite": suite}


def results(**flags: dict) -> dict:
    noise = flag({"instructions/dequeue": [57.0, 57.0], "process/one": [1.0, 1.02]}, 1.0, 0.02)
    return {"port": "soft", "adapter": "soft-lo", "claimed": list(flags), "commit": "abc",
            "compiler": "gcc", "machine": "a machine", "seed": 1, "not_counted": {},
            "flags": {CONTROL: noise, **flags}}


class Order(unittest.TestCase):
    def test_balanced(self) -> None:
        """Each flag is as often first as second, and as far from the beginning as from the end."""
        runs = flag_worth.plan(FLAGS, 3, 1)
        for name in FLAGS:
            mine = [each.with_first for each in runs if each.flag == name]
            self.assertEqual(collections.Counter(mine), {True: 3, False: 3})
        half = len(FLAGS) + 1
        for at in range(0, len(runs), 2 * half):
            there, back = runs[at:at + half], runs[at + half:at + 2 * half]
            self.assertEqual([each.flag for each in back[1:]], [each.flag for each in there[:0:-1]])

    def test_the_control_begins(self) -> None:
        runs = flag_worth.plan(FLAGS, 2, 5)
        self.assertEqual([each.flag for each in runs[::len(FLAGS) + 1]], [CONTROL] * 4)

    def test_shuffled(self) -> None:
        orders = {tuple(each.flag for each in flag_worth.plan(FLAGS, 1, seed))
                  for seed in range(20)}
        self.assertGreater(len(orders), 5)
        self.assertEqual(flag_worth.plan(FLAGS, 2, 7), flag_worth.plan(FLAGS, 2, 7))


class Counts(unittest.TestCase):
    """The numbers read out of callgrind's and objdump's output."""

    DUMP = """\
desc: Trigger: Client Request: dequeue
positions: instr
events: Ir Dr Dw I1mr
ob=(1) /lib/libdapl-soft.so.2
fn=(1) dequeue
0x4a10 20 5 10
+8 20 5
* 20
-4 40 0 20 1
+12 10
+4 10
cob=(2) /lib/libc.so.6
cfn=(2) pthread_mutex_lock
calls=99 0x9000
* 500 70 80
* 77 77
ob=(2)
fn=(2)
0x9000 500 70 80
"""
    CODE = """\
    4a10:\tlock cmpxchg %ecx,(%rdi)
    4a14:\txchg   %eax,(%rdx)
    4a18:\txchg   %ax,%ax
    4a1c:\tmov    %eax,(%rdx)
    4a20:\tlock addl $0x1,(%rdi)
"""

    def test_a_call(self) -> None:
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(self.DUMP)
            file.flush()
            dump = instructions.Dump(pathlib.Path(file.name))
        found = map(instructions.ATOMIC.match, self.CODE.splitlines())
        marks = {int(each[1], 16) for each in found if each}
        self.assertEqual(marks, {0x4a10, 0x4a14, 0x4a20})
        row = instructions.summarize(dump, 20, 0, lambda _: marks)
        told = {name: row[name] for name in ("provider", "libc", "locks", "stores", "atomics")}
        self.assertEqual(told, {"provider": 6.5, "libc": 25, "locks": 0.5, "stores": 1.5,
                                "atomics": 3.5})
        self.assertNotIn("atomics", instructions.summarize(dump, 20, 0, lambda _: None))


class Numbers(unittest.TestCase):
    def test_summary(self) -> None:
        self.assertEqual(flag_worth.summary_of([1.0, 1.1, 0.9, 1.2, 50.0]),
                         {"median": 1.1, "low": 1.0, "high": 1.2, "pairs": 5})
        self.assertEqual(flag_worth.summary_of([2.0])["low"], 2.0)

    def table(self, title: str, **flags: dict) -> flag_worth.Table:
        return next(each for each in flag_worth.tables_of(results(**flags))
                    if each.title.startswith(title))

    def test_saved_and_cost(self) -> None:
        table = self.table("instructions", fast=flag({"instructions/dequeue": [57.0, 80.0]}),
                           slow=flag({"instructions/dequeue": [57.0, 54.5]}),
                           idle=flag({"instructions/dequeue": [57.0, 57.04]}))
        at = table.columns.index("dequeue")
        told = {name: (row[at].text, row[at].judged) for name, row in table.rows.items()}
        self.assertEqual(told, {"as claimed": ("57", 0), CONTROL: ("·", 0), "fast": ("23", 1),
                                "slow": ("-2.5", -1), "idle": ("·", 0)})
        self.assertEqual(table.rows["fast"][at - 1].text, "?")  # that call was not counted

    def test_nothing_to_tell(self) -> None:
        for title, value in (("locks", 0.0), ("instructions", 57.0)):
            same = flag({f"{title}/dequeue": [value, value]})
            table = flag_worth.counted_table({CONTROL: same, "idle": same}, "", title,
                                             flag_worth.CALLS, 1, 0.05)
            self.assertEqual(table is None, value == 0)

    def test_switches_are_less_exact(self) -> None:
        table = self.table("context switches", cno=flag({"process/one": [1.0, 2.0]}),
                           srq=flag({"process/one": [1.0, 1.08]}))
        self.assertEqual([table.rows[name][0].text for name in ("cno", "srq")], ["1", "·"])

    def test_a_ratio_within_the_noise_is_none(self) -> None:
        table = self.table("time", fast=flag({}, 1.08, 0.01), same=flag({}, 1.015, 0.01),
                           slow=flag({}, 0.9, 0.01))
        self.assertEqual([table.rows[name][0].judged for name in ("fast", "same", "slow")],
                         [1, 0, -1])
        self.assertEqual(table.rows["fast"][0].text, "1.08 (1.07–1.09)")


class WellFormed(html.parser.HTMLParser):
    """Every element that needs it is closed, in the right order."""

    VOID = {"meta", "line", "rect", "circle"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: collections.Counter = collections.Counter()

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.seen[tag] += 1
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self.seen[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        if self.open.pop() != tag:
            raise AssertionError(f"</{tag}>")


class Outputs(unittest.TestCase):
    def setUp(self) -> None:
        self.results = results(
            direct_event=flag({"instructions/dequeue": [57.0, 80.0], "process/one": [1.0, 1.0]},
                              1.08, 0.01),
            evil=flag({"instructions/dequeue": [57.0, 50.0], "process/one": [1.0, 2.0]},
                      0.9, 0.01))

    def test_text(self) -> None:
        text = flag_report.as_text(self.results)
        self.assertRegex(text, r"(?m)^direct_event( +\?)*.* 23 ")
        self.assertRegex(text, r"(?m)^evil.* -7 ")
        for part in ("commit abc", "gcc", "a machine", "suite with: 7 passed; without: 7 passed"):
            self.assertIn(part, text)
        self.assertNotIn("\033", text)
        self.assertIn("\033[32m", flag_report.as_text(self.results, colour=True))

    def test_what_is_not_counted_is_said(self) -> None:
        self.results["not_counted"] = {"instructions": "valgrind is missing"}
        self.assertIn("not counted: instructions: valgrind is missing",
                      flag_report.as_text(self.results))
        self.assertIn("valgrind is missing", flag_report.as_page(self.results))

    def test_page(self) -> None:
        page = flag_report.as_page(self.results)
        parser = WellFormed()
        parser.feed(page)
        parser.close()
        self.assertEqual(parser.open, [])
        self.assertEqual(parser.seen["svg"], 3)  # instructions, switches, times
        self.assertEqual(parser.seen["circle"], 3)  # a ratio of each row
        self.assertIn("what &lt;it&gt; does", page)
        self.assertNotIn("<script", page)
        self.assertNotRegex(page, r"(?:src|href)=|url\(")  # one file, whole
        for value in re.findall(r' (?:x|y|width|height|cx|cy)="([^"]*)"', page):
            self.assertRegex(value, r"^\d+(\.\d+)?(e-\d+)?$")  # nothing outside on the left

    def test_markdown(self) -> None:
        lines = flag_report.as_markdown(self.results).splitlines()
        self.assertRegex(lines[0], r"^\| `soft-lo`: instructions per call \| write \|")
        for line in lines[:5]:
            self.assertEqual(line.count("|"), lines[0].count("|"))
        self.assertIn("| `direct_event` |", "\n".join(lines))

    def test_json(self) -> None:
        self.assertEqual(json.loads(json.dumps(self.results)), self.results)

    def test_failures_are_told(self) -> None:
        self.assertFalse(flag_report.suite_failed(self.results))
        self.results["flags"]["evil"] = flag({}, bad=("EVD-08",))
        self.assertTrue(flag_report.suite_failed(self.results))
        self.assertIn("(EVD-08)", flag_report.as_text(self.results))


class KeptState(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "state.json"

    def state(self, tree: str, restart: bool = False) -> flag_runs.State:
        return flag_runs.State(self.path, tree, restart)

    def test_kept_for_the_same_tree_only(self) -> None:
        self.state("one").keep("count", {"dequeue": 57})
        self.assertEqual(self.state("one").steps, {"count": {"dequeue": 57}})
        self.assertEqual(self.state("two").steps, {})
        self.assertEqual(self.state("one", restart=True).steps, {})

    def test_a_torn_file_is_none(self) -> None:
        self.path.write_text('{"tree": "one", "ste')
        self.assertEqual(self.state("one").steps, {})


class Suite(unittest.TestCase):
    def test_summary(self) -> None:
        """Outcomes that occurred, and the cases whose outcome fails a run of the suite."""
        outcomes = {"EP-01": "passed", "EP-02": "failed", "EP-03": "not claimed",
                    "EP-04": "unexpected failure"}
        summary = flag_runs.suite_summary({
            "results": [{"rule": rule, "outcome": each} for rule, each in outcomes.items()],
            "counts": {"passed": 1, "failed": 1, "waived": 0}})
        self.assertEqual(summary, {"outcomes": {"passed": 1, "failed": 1},
                                   "bad": ["EP-02", "EP-04"]})


class ProgressLines(unittest.TestCase):
    def test_without_a_terminal_at_most_one_in_a_while(self) -> None:
        with mock.patch("sys.stderr", io.StringIO()) as said, mock.patch("time.monotonic") as clock:
            clock.return_value = 100.0
            progress = flag_runs.Progress()
            progress.show("building")
            progress.total = 5
            for seconds in (1, 14, 15, 16, 40):
                clock.return_value = 100.0 + seconds
                progress.show(f"step {seconds}")
                progress.step(True)
            progress.clear()
            self.assertEqual(re.sub(", about.*left", "", said.getvalue()),
                             "building\n[2/5] step 15\n[4/5] step 40\n")


class Errors(unittest.TestCase):
    def refused(self, *arguments: str, **environment: str) -> str:
        done = run(sys.executable, ROOT / "gen/dapl-port", "features", *arguments, **environment)
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("Traceback", done.stderr)
        return done.stderr

    def test_unknown(self) -> None:
        self.assertIn("there is no port 'nobody'", self.refused("nobody"))
        self.assertIn("there is no feature 'speed'; soft claims: srq",
                      self.refused("soft", "--flags", "cq_wait,speed"))
        self.assertIn("libfabric does not claim 'srq'", self.refused("libfabric", "--flags", "srq"))
        self.assertIn("soft has no adapter 'ofi-lo'; it has: soft-lo",
                      self.refused("soft", "--adapter", "ofi-lo"))

    def test_no_build_tools(self) -> None:
        self.assertIn("meson is missing; the Debian package is meson",
                      self.refused("soft", "--build", "/nowhere", PATH="/nowhere"))

    def test_a_folder_that_is_no_build(self) -> None:
        self.assertIn("is no build folder, and not empty",
                      self.refused("soft", "--build", str(ROOT)))

    def measurement(self) -> flag_runs.Measurement:
        found = flag_runs.Measurement(skeleton.find_kit(ROOT), "soft", None, None, None,
                                      flag_runs.FULL, False, 1)
        found.programs = {"context-switches": "switches"}
        return found

    def test_without_valgrind(self) -> None:
        found = self.measurement()
        path, os.environ["PATH"] = os.environ["PATH"], "/nowhere"
        try:
            found._look_for_tools()
        finally:
            os.environ["PATH"] = path
        self.assertEqual(found.missing["instructions, stores, atomics and locks"],
                         "valgrind is missing")
        self.assertIn("libfabric", found.missing["times"])

    def test_a_benchmark_is_tried_again_and_what_it_says_is_told(self) -> None:
        found = self.measurement()
        with tempfile.TemporaryDirectory() as folder:
            count = pathlib.Path(folder) / "count"
            script = ('echo x >>"$0"; test $(wc -l <"$0") -ge "$1" || { echo broke >&2; exit 1; };'
                      ' echo "{}" >"$3"')
            command = f"bash -c '{script}' {count}"
            self.assertEqual(found._tell(command, flag_runs.ATTEMPTS), {})
            with self.assertRaisesRegex(skeleton.PortError, r"ended with 1, 3 times:\nbroke"):
                found._tell(command, 99)

    def test_flags_come_from_the_port(self) -> None:
        """None is written down in the tool."""
        known = port_toml.known_features(ROOT / "contract/dapls_ib.hpp")
        for module in (flag_worth, flag_runs, flag_report):
            text = pathlib.Path(module.__file__).read_text()
            text = text.replace("soft-lo-without-cq_wait", "")
            named = [name for name in known if re.search(rf'"{name}"', text)]
            self.assertEqual(set(named) - set(flag_worth.KINDS), set(), module)

    def test_a_flag_takes_those_that_need_it_along(self) -> None:
        contract = ROOT / "contract/dapls_ib.hpp"
        self.assertLessEqual({"cq_wait", "cq_threshold"},
                             port_toml.dependents(contract, {"cq_wait"}))
        self.assertEqual(port_toml.dependents(contract, {"srq"}),
                         {"srq", "ep_watermarks"})


if __name__ == "__main__":
    unittest.main()
