#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Each fault of a broken provider fails the case that triggers it, and no other case."""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

OPTIONS = argparse.Namespace()

# The broken provider passes all these cases, unless it is configured to break MEM-01.
CASES = ["IA-04", "IA-06", "MEM-01", "REG-01", "REG-06"]
VICTIM = "MEM-01"
FAULTS = ["sound", "crash", "hang", "exit", "descriptor", "thread", "code", "unsupported",
          "child", "late_crash", "once", "open_fails", "open_hangs", "open_crashes", "open_sleeps"]


class Run:
    """One run of the program, and its parsed scorecard."""

    def __init__(self, folder: pathlib.Path, *arguments: str, **more: str):
        self.path = folder / "card.json"
        self.path.unlink(missing_ok=True)
        command = [OPTIONS.program, "--json", str(self.path), *arguments]
        environment = {**os.environ, "DAT_OVERRIDE": str(folder / "dat.conf"),
                       "TMPDIR": str(folder), **more}
        for sanitizer in ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"):  # the test needs the signal
            environment[sanitizer] = ":".join(filter(None, [environment.get(sanitizer),
                                                            "handle_segv=0"]))
        began = time.monotonic()
        process = subprocess.run(command, capture_output=True, text=True, errors="replace",
                                 env=environment, timeout=240, check=False)
        self.seconds = time.monotonic() - began
        self.status, self.output = process.returncode, process.stdout + process.stderr
        self.card = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.results = {each["rule"]: each for each in self.card.get("results", [])}


class RunnerTest(unittest.TestCase):
    def setUp(self):
        keep = tempfile.TemporaryDirectory(prefix="conformance-")
        self.addCleanup(keep.cleanup)
        self.folder = pathlib.Path(keep.name)
        lines = [f'{fault} u2.0 nonthreadsafe default {OPTIONS.provider} broken.1.0 "{fault}" " "\n'
                 for fault in FAULTS]
        lines.append('gone u2.0 nonthreadsafe default /nowhere/libgone.so broken.1.0 " " " "\n')
        (self.folder / "dat.conf").write_text("".join(lines))

    def judge(self, fault: str, *more: str) -> Run:
        cases = [word for case in CASES for word in ("--case", case)]
        return Run(self.folder, "--ia", fault, *cases, *more)

    def expect_victim(self, run: Run, reason: str) -> None:
        """The victim fails, for this reason; the others run; the report shows both."""
        self.assertEqual(run.status, 1, run.output)
        self.assertEqual(list(run.results), CASES_IN_ORDER, run.output)
        for rule, result in run.results.items():
            self.assertEqual(result["outcome"], "failed" if rule == VICTIM else "passed", result)
        self.assertRegex(run.results[VICTIM]["reason"], reason)
        self.assertTrue(run.results[VICTIM]["hint"])
        self.assertIn("4 passed, 1 failed, 0 not claimed, 0 waived, 0 errors", run.output)
        self.assertIn(VICTIM, run.output)

    def expect_absent(self, run: Run, reason: str, status: int = 3) -> None:
        self.assertEqual(run.status, status, run.output)
        self.assertRegex(run.card["device"]["reason"], reason)
        self.assertEqual(run.results, {})
        self.assertRegex(re.sub(r"\s+", " ", run.output), reason)

    # ------------------------------------------------------------------------------------- outcomes

    def test_a_sound_provider_passes(self):
        run = self.judge("sound")
        self.assertEqual(run.status, 0, run.output)
        self.assertEqual({each["outcome"] for each in run.results.values()}, {"passed"})

    def test_attributes_have_types(self):
        device = self.judge("sound").card["device"]
        self.assertIs(device["judged"], True)
        told = device["attributes"]
        for name in ("thread-safe", "shared receive queues", "extensions"):
            self.assertIsInstance(told[name], bool, name)
        for name in ("endpoints", "regions", "private data"):
            self.assertIsInstance(told[name], int, name)
        self.assertIsInstance(told["provider"], str)

    def test_a_crash_is_named(self):
        self.expect_victim(self.judge("crash"), r"crashes: SIGSEGV .*dat_pz_create")

    def test_a_hang_ends_at_the_deadline(self):
        run = self.judge("hang", "--timeout", "3")
        self.expect_victim(run, r"hangs: not finished after 3 seconds.*dat_pz_create")
        self.assertLess(run.seconds, 60)

    def test_a_provider_that_exits(self):
        run = self.judge("exit")
        self.expect_victim(run, r"exits during the case.* exit status 0")
        shown = [int(line) for line in re.findall(r"\| line (\d+) of a report", run.output)]
        self.assertEqual((shown[0], shown[-1]), (1, 100), run.output)
        self.assertLess(len(shown), 100)
        self.assertIn(f"{100 - len(shown)} lines are left out", run.output)

    def test_a_leaked_descriptor(self):
        self.expect_victim(self.judge("descriptor"), r"leaves 1 descriptor behind: /dev/null")

    def test_a_leaked_thread(self):
        self.expect_victim(self.judge("thread"), r"leaves [12] threads? behind: .*forgotten")

    def test_a_wrong_code(self):
        run = self.judge("code")
        self.expect_victim(run, r"got DAT_SUCCESS, want DAT_INVALID_PARAMETER")
        self.assertRegex(run.output, r"\([a-z_]+_test\.cpp:\d+\)")

    def test_what_fails_is_repeated_alone(self):
        """What passes then is counted as passed, and shown."""
        run = self.judge("once", "--html", str(self.folder / "card.html"))
        self.assertEqual(run.status, 0, run.output)
        self.assertIn("5 passed, 0 failed", run.output)
        self.assertRegex(run.output, rf"(?m)^{VICTIM}: .*got DAT_SUCCESS")  # the text of the failure
        self.assertIn("5 cases, ", run.output)
        self.assertIn(" seconds, 1 passed on repetition", run.output)
        self.assertEqual(run.card["passed_on_repetition"], 1)
        self.assertRegex(run.results[VICTIM]["failed_at_first"], "got DAT_SUCCESS")
        self.assertNotIn("failed_at_first", run.results["IA-04"])
        page = (self.folder / "card.html").read_text()
        self.assertIn("passed on repetition", page)

    def test_no_repetition(self):
        run = self.judge("once", "--no-repeat")
        self.expect_victim(run, "got DAT_SUCCESS")
        self.assertNotIn("repeat", run.output)

    def test_what_fails_again_is_the_adapters(self):
        run = self.judge("code")
        self.expect_victim(run, "got DAT_SUCCESS")
        self.assertIn("repeating, alone, what failed", run.output)
        self.assertEqual(run.card["passed_on_repetition"], 0)

    def test_a_call_that_is_not_supported(self):
        run = self.judge("unsupported", "--html", str(self.folder / "card.html"))
        self.assertEqual(run.status, 0, run.output)
        page = (self.folder / "card.html").read_text()
        self.assertIn("dat_pz_create answers that it is not supported", page)
        self.assertIn("dapl-port status --results", page)
        self.assertEqual(run.results[VICTIM]["outcome"], "not claimed")
        self.assertEqual(run.results[VICTIM]["refused_call"], "dat_pz_create")
        self.assertEqual(run.results[VICTIM]["reason"], "dat_pz_create")
        self.assertIn("4 passed, 0 failed, 1 not claimed", run.output)

    def test_answers_of_calls(self):
        """A state that the provider does not survive is named; the others have their answers."""
        path = self.folder / "answers.json"
        run = Run(self.folder, "--ia", "sound", "--calls", str(path))
        self.assertEqual(run.status, 1, run.output)
        self.assertRegex(run.output, r"PZ, freed, dat_pz_query: SIGSEGV")
        told = json.loads(path.read_text())
        self.assertEqual(told["adapter"], "sound")
        zones = told["answers"]["PZ"]
        self.assertEqual(zones["dat_pz_query"],
                         {"unused": "DAT_SUCCESS", "in use": None, "freed": None})
        self.assertEqual(zones["dat_rmr_create"]["unused"], "DAT_MODEL_NOT_SUPPORTED")
        self.assertEqual(set(told["answers"]["EP"]["dat_ep_reset"].values()), {None})

    def test_a_crash_when_the_process_ends(self):
        self.expect_victim(self.judge("late_crash"), r"crashes at process exit: SIGSEGV")

    def test_one_at_a_time_is_the_same(self):
        self.expect_victim(self.judge("crash", "--jobs", "1"), r"crashes: SIGSEGV")

    def test_nothing_stays_behind(self):
        run = self.judge("child")
        self.assertEqual(run.status, 0, run.output)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()),
                         ["card.json", "dat.conf"])
        for name in pathlib.Path("/proc").glob("[0-9]*/comm"):
            try:
                self.assertNotEqual(name.read_text(), "left_behind\n", name)
            except OSError:
                pass  # it has ended

    # --------------------------------------------------------------------------------------- devices

    def test_an_unknown_adapter(self):
        run = Run(self.folder, "--ia", "unknown")
        self.expect_absent(run, r"no adapter unknown is registered .* registered adapters: .*sound")
        self.assertLess(run.seconds, 20)
        self.assertEqual(Run(self.folder, "--ia", "unknown", "--skip-missing").status, 77)

    def test_a_name_that_is_no_text(self):
        self.expect_absent(Run(self.folder, "--ia", os.fsdecode(b"acme\xff")),
                           r"no adapter acme\ufffd is registered")

    def test_the_other_line_is_named(self):
        self.expect_absent(Run(self.folder, "--ia", "sound", "--threadsafe"),
                           r"nonthreadsafe: omit --threadsafe")

    def test_a_missing_library(self):
        self.expect_absent(Run(self.folder, "--ia", "gone"),
                           r"cannot load library /nowhere/libgone.so .*: .*No such file")

    def test_an_absent_device(self):
        self.expect_absent(Run(self.folder, "--ia", "open_fails"),
                           r"dat_ia_open returns DAT_INSUFFICIENT_RESOURCES")

    def test_a_device_that_does_not_answer(self):
        run = Run(self.folder, "--ia", "open_hangs", "--timeout", "2")
        self.expect_absent(run, r"did not complete within 2 seconds")
        self.assertLess(run.seconds, 30)

    def test_a_provider_that_dies_of_being_opened_has_failed(self):
        self.expect_absent(Run(self.folder, "--ia", "open_crashes"), r"exits early: SIGSEGV", 1)

    def test_a_slow_device_is_judged(self):
        run = self.judge("open_sleeps")
        self.assertEqual(run.status, 0, run.output)

    # --------------------------------------------------------------------------------------- waivers

    def waive(self, **changes: object) -> str:
        """A file with one waiver; a member that is None is left out."""
        path = self.folder / "waivers"
        entry = {"case": VICTIM, "reason": "known", "failure": "crashes: SIG*dat_pz_create",
                 "link": "https://example.org/1", "until": "2999-12-31", **changes}
        path.write_text(json.dumps([{name: value for name, value in entry.items()
                                     if value is not None}]))
        return str(path)

    def expect_waived(self, run: Run, outcome: str) -> dict:
        """What became of the waived case. The run is green only if the waiver was right."""
        self.assertEqual(run.status, 0 if outcome in ("waived", "passed", "not claimed") else 1,
                         run.output)
        self.assertEqual(run.results[VICTIM]["outcome"], outcome, run.output)
        return run.results[VICTIM]

    def test_a_waived_failure(self):
        run = self.judge("crash", "--waivers", self.waive())
        self.expect_waived(run, "waived")
        self.assertIn("https://example.org/1", run.output)

    def test_a_waived_case_that_fails_differently(self):
        page = self.folder / "card.html"
        for changes in ({}, {"flaky": True}):
            run = self.judge("code", "--waivers", self.waive(**changes), "--html", str(page))
            result = self.expect_waived(run, "unexpected failure")
            self.assertRegex(result["reason"], "got DAT_SUCCESS, want DAT_INVALID_PARAMETER")
            self.assertRegex(" ".join(result["notes"]), r"fails differently than its waiver says: "
                             r"expected \"crashes: SIG\*dat_pz_create\".*https://example.org/1")
            self.assertTrue(result["hint"])
            self.assertIn("4 passed, 0 failed, 0 not claimed, 0 waived, 1 unexpected failure, "
                          "0 errors", run.output)
            self.assertRegex(page.read_text(), r'class="case unexpected-failure" open')

    def test_the_expected_failure_is_a_pattern(self):
        for pattern in ("crashes", "*SIGSEGV*started: *", "*", ["hangs", "crashes"]):
            run = self.judge("crash", "--waivers", self.waive(failure=pattern))
            self.expect_waived(run, "waived")
        for pattern in ("pz_create*crashes", "SIGSEG?", "Crashes", ["hangs", "exits"]):
            run = self.judge("crash", "--waivers", self.waive(failure=pattern))
            self.expect_waived(run, "unexpected failure")

    def test_a_waiver_ends(self):
        yesterday = datetime.date.today() - datetime.timedelta(days=2)
        for changes in ({}, {"failure": "hangs"}):
            waivers = self.waive(until=str(yesterday), **changes)
            self.expect_victim(self.judge("crash", "--waivers", waivers), "crashes")

    def test_a_waived_case_that_passes(self):
        self.expect_waived(self.judge("sound", "--waivers", self.waive()), "unexpected pass")

    def test_a_waived_case_that_is_not_claimed(self):
        run = self.judge("unsupported", "--waivers", self.waive())
        result = self.expect_waived(run, "unexpected refusal")
        self.assertRegex(result["reason"], "^dat_pz_create: not claimed, but .*remove the waiver")
        self.assertIn("1 unexpected refusal,", run.output)

    def test_a_waived_case_that_fails_now_and_then(self):
        for fault, outcome in (("crash", "waived"), ("sound", "passed"),
                               ("unsupported", "not claimed")):
            run = self.judge(fault, "--waivers", self.waive(flaky=True))
            self.expect_waived(run, outcome)
        run = self.judge("code", "--waivers", self.waive(flaky=True, failure=None))
        self.expect_waived(run, "waived")
        self.assertEqual(self.judge("sound", "--waivers", self.waive(flaky=False)).status, 1)

    def test_a_waiver_for_some_kernels(self):
        major, minor = re.match(r"(\d+)\.(\d+)", platform.release()).groups()
        for kernels in (">=1", f">={major}", f">={major}.{minor}", f"<{int(major) + 1}",
                        f">={major}.{minor} <{major}.{int(minor) + 1}", ">=1.2.3.4"):
            with self.subTest(kernels):
                waivers = self.waive(kernel=kernels)
                self.expect_waived(self.judge("crash", "--waivers", waivers), "waived")
                self.expect_waived(self.judge("sound", "--waivers", waivers), "unexpected pass")
        for kernels in ("<1", f"<{major}", f"<{major}.{minor}", f">={int(major) + 1}",
                        f">=1 <{major}", f">={major}.{int(minor) + 1}"):
            with self.subTest(kernels):
                waivers = self.waive(kernel=kernels)
                self.expect_waived(self.judge("sound", "--waivers", waivers), "passed")
                run = self.judge("crash", "--waivers", waivers)
                self.expect_victim(run, "crashes")
                self.assertIn(f"its waiver is for kernels {kernels} only", run.output)

    def test_a_waiver_must_be_whole(self):
        for changes, said in (({"until": "soon"}, "is not a date"),
                              ({"link": ""}, '"link" is missing'),
                              ({"failure": None}, '"failure" is missing'),
                              ({"failure": "", "flaky": True}, '"failure" is missing'),
                              ({"failure": []}, '"failure" is missing'),
                              ({"failure": ["crashes", 1]}, '"failure" is missing'),
                              ({"failure": None, "flaky": False}, '"failure" is missing'),
                              ({"flaky": "yes"}, "is not true or false"),
                              ({"kernel": "7"}, '"kernel" is not of the form'),
                              ({"kernel": ">6"}, '"kernel" is not of the form'),
                              ({"kernel": ">=6.x"}, '"kernel" is not of the form'),
                              ({"kernel": ""}, '"kernel" is missing'),
                              ({"case": "MEM-99"}, "unknown case MEM-99")):
            run = self.judge("sound", "--waivers", self.waive(**changes))
            self.assertEqual(run.status, 2, run.output)
            self.assertIn(said, run.output)

    # --------------------------------------------------------------------------------------- options

    def test_wrong_usage(self):
        for arguments in (["--nonsense"], [], ["--ia"], ["--ia", "sound", "--case", "XYZ-*"],
                          ["--ia", "sound", "--timeout", "never"], ["--ia", "sound", "--jobs", "0"],
                          ["--ia", "sound", "--promise", "gold"], ["sound", "--nonsense"],
                          ["sound", "--ia", "hang"]):
            run = Run(self.folder, *arguments)
            self.assertEqual(run.status, 2, (arguments, run.output))
            self.assertIn("dapl-conformance: ", run.output)

    def test_the_file_for_build_servers(self):
        path = self.folder / "card.xml"
        for fault, status in (("sound", 0), ("crash", 1), ("open_fails", 3)):
            run = self.judge(fault, "--junit", str(path))
            self.assertEqual(run.status, status, run.output)
            suite = xml.etree.ElementTree.parse(path).getroot().find("testsuite")
            counts = {"failure": 0, "error": 0, "skipped": 0}
            for case in suite:
                for kind in counts:
                    counts[kind] += case.find(kind) is not None
            if status != 3:
                told = run.card["counts"]
                self.assertEqual(int(suite.get("tests")), len(run.results))
                self.assertEqual(counts["failure"], int(suite.get("failures")))
                self.assertEqual(counts["failure"], told["failed"])
                self.assertEqual(counts["skipped"], told["not claimed"] + told["waived"])
            self.assertEqual(counts["error"], int(status == 3))

    def test_results_tell_where_they_were_made(self):
        run = self.judge("sound", "--html", str(self.folder / "card.html"))
        origin = run.card["origin"]
        self.assertEqual(origin["host"], os.uname().nodename)
        self.assertIn("--html", origin["arguments"])
        self.assertRegex(origin["program"], r"^dapl-conformance \d")
        page = (self.folder / "card.html").read_text()
        self.assertIn(origin["kernel"], page)
        for name in run.results:
            self.assertIn(f'id="{name}"', page)
            self.assertIn(f'href="#{name.split("-")[0]}"', page)

    def test_ways_to_name_an_adapter(self):
        for named in (["sound"], ["--ia", "sound"], ["--adapter", "sound"]):
            run = Run(self.folder, *named, "--case", "HANDLE-01", DAPL_CONFORMANCE_IA="hang")
            self.assertIn("adapter sound", run.output)
        run = Run(self.folder, "--case", "HANDLE-01", DAPL_CONFORMANCE_IA="sound")
        self.assertIn("adapter sound", run.output)

    def test_help_fits_a_terminal(self):
        run = Run(self.folder, "--help")
        self.assertEqual([line for line in run.output.splitlines() if len(line) > 85], [])

    def test_version(self):
        run = Run(self.folder, "--version")
        self.assertEqual(run.status, 0)
        self.assertRegex(run.output, r"^dapl-conformance \d+\.\d+\.\d+\n$")

    def test_every_case_has_an_id_of_its_own(self):
        ids = [line.split()[0] for line in Run(self.folder, "--list").output.splitlines()]
        self.assertGreaterEqual(len(ids), 230)
        self.assertEqual(len(ids), len(set(ids)))
        for name in ids:
            self.assertRegex(name, r"^[A-Z]+-[0-9]{2}$")

    def test_every_case_has_a_hint(self):
        source = pathlib.Path(OPTIONS.source)
        text = "".join(path.read_text() for path in source.glob("cases/*_test.cpp"))
        cases = re.findall(r'TEST_CASE\(\s*"([A-Z]+-[0-9]+): (.*?)\)\n\{', text, re.DOTALL)
        self.assertGreaterEqual(len(cases), 230)
        self.assertEqual([name for name, rest in cases if "hint(" not in rest], [])

    def test_in_process(self):
        run = Run(self.folder, "--ia", "sound", "--case", "MEM-01", "--in-process", "--success")
        self.assertEqual(run.status, 0, run.output)
        self.assertRegex(run.output, r"test cases: +1 \| +1 passed")

    def test_the_page_stands_alone(self):
        page = self.folder / "card.html"
        self.judge("code", "--html", str(page))
        text = page.read_text()
        self.assertIn("MEM-01", text)
        self.assertNotRegex(text, r'(src|href)="[^#]')

    def test_the_page_begins_with_what_failed(self):
        page = self.folder / "card.html"
        self.judge("code", "--html", str(page))
        text = page.read_text()
        self.assertIn('class="case failed" open>', text)
        self.assertIn('<input type="checkbox" checked value="failed">', text)
        self.assertIn('<input type="checkbox" value="passed">', text)
        self.judge("sound", "--html", str(page))
        self.assertIn('<input type="checkbox" checked value="passed">', page.read_text())

    def test_a_report_that_cannot_be_written(self):
        """It is found before anything is judged."""
        run = self.judge("sound", "--html", "/nonexistent/report")
        self.assertEqual(run.status, 2, run.output)
        self.assertIn("cannot write /nonexistent/report: No such file", run.output)
        self.assertNotIn("passed", run.output)

    def test_what_a_killed_run_leaves_is_removed_by_the_next(self):
        def folders() -> set[pathlib.Path]:
            return set(self.folder.glob("dapl-conformance-*"))

        other = self.folder / "dapl-conformance-link"  # what a link names stays as it is
        other.symlink_to(self.folder)
        command = [OPTIONS.program, "--ia", "hang", "--case", VICTIM, "--timeout", "100"]
        environment = {**os.environ, "DAT_OVERRIDE": str(self.folder / "dat.conf"),
                       "TMPDIR": str(self.folder)}
        runs = [subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
                for _ in range(2)]
        for run in runs:
            self.addCleanup(run.wait)
            self.addCleanup(run.kill)
        give_up = time.monotonic() + 60
        while len(folders() - {other}) < 2 and time.monotonic() < give_up:
            time.sleep(0.01)
        time.sleep(0.5)  # its children have begun
        both = folders()
        self.assertEqual(len(both), 3)
        runs[0].kill()
        runs[0].wait()
        give_up = time.monotonic() + 60
        while len(folders()) == 3 and time.monotonic() < give_up:  # its children end, too
            self.assertEqual(self.judge("sound").status, 0)
        left = folders()
        self.assertEqual(len(left), 2)  # folder of the run that goes on, and the link
        self.assertLess(left, both)
        self.assertTrue((self.folder / "dat.conf").exists())

    def test_no_colour_in_a_file(self):
        self.assertNotIn("\x1b", self.judge("code").output)

    def test_a_sanitizer_that_is_preloaded(self):
        """A preloaded sanitizer, for a provider compiled with it: the suite takes it into account.
        """
        def told(*command: str) -> str:
            return subprocess.run(command, capture_output=True, text=True, check=False).stdout

        run_time = told("gcc", "-print-file-name=libasan.so").strip() if shutil.which("gcc") else ""
        linked = told("ldd", OPTIONS.program)
        if not os.path.isabs(run_time) or re.search("lib[at]san", linked):
            self.skipTest("there is no libasan.so, or the program has a sanitizer")
        cases = ("--case", "EVD-39", "--case", "MEM-01")
        run = Run(self.folder, "--ia", "sound", *cases, LD_PRELOAD=run_time)
        self.assertEqual(run.status, 0, run.output)
        self.assertIn("sanitizers", run.results["EVD-39"]["reason"])
        self.assertEqual(run.results["MEM-01"]["outcome"], "passed")
        self.assertIn("__asan_default_options", symbols("--defined-only", OPTIONS.program))

    def test_it_needs_no_symbol_that_only_one_libdat2_has(self):
        """Every registry in use exports at least the calls of the table."""
        known = pathlib.Path(OPTIONS.system_libdat2)
        if not known.exists():
            self.skipTest(f"there is no {known}")
        wanted = {name for name in symbols("--undefined-only", OPTIONS.program)
                  if name.startswith("dat")}
        self.assertTrue(wanted)
        self.assertEqual(wanted - symbols("--defined-only", known), set())


CASES_IN_ORDER = ["REG-01", "REG-06", "IA-04", "IA-06", "MEM-01"]


def symbols(which: str, path) -> set[str]:
    answer = subprocess.run(["nm", "-D", which, str(path)], capture_output=True, text=True,
                            check=True)
    return {line.split()[-1].split("@")[0] for line in answer.stdout.splitlines()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--provider", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--system-libdat2", default="/nonexistent")
    parser.parse_known_args(namespace=OPTIONS)
    rest = parser.parse_known_args()[1]
    program = unittest.main(argv=[sys.argv[0], *rest], exit=False)
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
