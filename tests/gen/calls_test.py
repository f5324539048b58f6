#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""docs/calls.md says what the files of answers and the table of faults say.

That the files say what the ports do is judged by tests/conformance/check_answers.py.
"""

import copy
import pathlib
import re
import sys
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "gen"), str(ROOT / "tests/conformance")]
sys.dont_write_bytecode = True

import call_answers  # noqa: E402
import check_answers  # noqa: E402

FAULTS = tomllib.loads(call_answers.FAULTS.read_text())


def observed() -> dict[str, call_answers.Answers]:
    return call_answers.read_answers(call_answers.ANSWERS)


class Page(unittest.TestCase):
    def test_is_up_to_date(self) -> None:
        self.assertTrue(call_answers.OUTPUT.read_text() == call_answers.current(),
                        "docs/calls.md is out of date; run: python3 gen/call_answers.py")

    def test_every_adapter_has_answered(self) -> None:
        self.assertEqual(set(observed()), set(call_answers.ADAPTERS))

    def test_no_call_is_always_refused_on_soft(self) -> None:
        self.assertEqual(call_answers.calls_refused_always(observed()["soft-lo"]), [])

    def test_every_call_is_judged(self) -> None:
        cases = call_answers.cases_of(FAULTS)
        calls = {call_answers.call_of(row) for rows in observed()["soft-lo"].values()
                 for row in rows}
        self.assertEqual([call for call in sorted(calls) if not cases.get(call)], [])

    def test_cases_exist(self) -> None:
        text = "".join(path.read_text() for path in (ROOT / "conformance/cases").glob("*.cpp"))
        there = set(re.findall(r'"([A-Z]+-\d\d): ', text))
        named = {case for cases in call_answers.cases_of(FAULTS).values() for case in cases}
        self.assertEqual(named - there, set())


class Differences(unittest.TestCase):
    """What would be found, on answers with one thing changed."""

    def setUp(self) -> None:
        self.observed = observed()
        self.soft = copy.deepcopy(self.observed["soft-lo"])

    def test_another_answer(self) -> None:
        self.soft["EP"]["dat_ep_reset"]["connected"] = "DAT_SUCCESS"
        found = check_answers.differences(self.observed["soft-lo"], self.soft)
        self.assertEqual(len(found), 1)
        self.assertIn("EP, dat_ep_reset, connected: DAT_INVALID_STATE", found[0])
        self.assertIn("DAT_SUCCESS now", found[0])

    def test_a_state_that_is_not_reached(self) -> None:
        self.soft["EP"]["dat_ep_query"]["completion pending"] = None
        self.assertEqual(len(check_answers.differences(self.observed["soft-lo"], self.soft)), 1)

    def test_a_state_that_passes_by(self) -> None:
        """The file of ofi has no answers for a state that passes by."""
        usual, seen = self.observed["ofi-lo"], copy.deepcopy(self.observed["ofi-lo"])
        seen["EP"]["dat_ep_query"]["completion pending"] = "DAT_SUCCESS"
        self.assertEqual(check_answers.differences(usual, seen), [])
        seen["EP"]["dat_ep_query"]["a state that is new"] = "DAT_SUCCESS"
        self.assertEqual(len(check_answers.differences(usual, seen)), 1)

    def test_a_call_without_a_row(self) -> None:
        for answers in self.observed.values():
            del answers["EP"]["dat_ep_reset"]
        with self.assertRaisesRegex(call_answers.AnswersError, "dat_ep_reset"):
            call_answers.check(self.observed)

    def test_a_row_that_one_adapter_lacks(self) -> None:
        del self.observed["ofi-lo"]["EP"]["dat_ep_modify, zone"]
        with self.assertRaisesRegex(call_answers.AnswersError, "dat_ep_modify, zone"):
            call_answers.check(self.observed)

    def test_a_call_that_is_refused(self) -> None:
        rows = self.soft["Library"]["dat_strerror"]
        rows["any"] = "DAT_MODEL_NOT_SUPPORTED"
        self.assertEqual(call_answers.calls_refused_always(self.soft), ["dat_strerror"])


class Cells(unittest.TestCase):
    def test_short_forms(self) -> None:
        self.assertEqual(call_answers.short("DAT_INVALID_STATE/DAT_INVALID_STATE_EP_CONNECTED",
                                            "EP", "connected"), "state")
        self.assertEqual(call_answers.short("DAT_INVALID_STATE/DAT_INVALID_STATE_EP_CONNECTED",
                                            "EP", "reserved"), "`INVALID_STATE/EP_CONNECTED`")
        self.assertEqual(call_answers.short("DAT_INVALID_HANDLE/DAT_INVALID_HANDLE_EP", "EP",
                                            "freed"), "handle")
        self.assertEqual(call_answers.short("DAT_INVALID_HANDLE/DAT_INVALID_HANDLE_EP", "CR",
                                            "of an RSP"), "`INVALID_HANDLE/EP`")
        self.assertEqual(call_answers.short("DAT_QUEUE_EMPTY", "EVD", "empty"), "`QUEUE_EMPTY`")

    def test_ports_that_differ(self) -> None:
        self.assertEqual(call_answers.cell({"soft-lo": "✓", "ofi-lo": "–", "verbs-rxe0": "✓"}),
                         "✓<br>ofi: –")

    def test_a_port_that_refuses_a_call(self) -> None:
        usual = ["`INVALID_STATE/EP_NOTREADY`", "✓", "state", "handle"]
        none = "unsupported"
        self.assertEqual(call_answers.refusal(usual, [none, none, "–", "handle"]), none)
        self.assertEqual(call_answers.refusal(usual, [none] * 4), f"{none}, for handle too")
        self.assertEqual(call_answers.refusal(usual, [usual[0], none, none, "handle"]),
                         f"{none}, for ✓ and state")
        for told in (usual, [usual[0], "✓", none, "handle"], ["state", none, none, "handle"]):
            self.assertIsNone(call_answers.refusal(usual, told))

    def test_runs_of_cases(self) -> None:
        self.assertEqual(call_answers.runs_of(["EP-01", "EP-02", "EP-03", "EP-07", "IA-09"]),
                         "EP-01–03, 07; IA-09")


if __name__ == "__main__":
    unittest.main()
