#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""dapl-port status goes along with an author who fills in a new port, a group of places at a time.

Nothing is built; judged_walk_test.py does that.
"""

import json
import pathlib
import re
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

from trees import ROOT, dapl_port, run  # noqa: E402
import walk_through  # noqa: E402
from walk_through import steps  # noqa: E402

KIT = steps.skeleton.Kit(ROOT)
PLACES = steps.skeleton.places(KIT, steps.PORT)
STEPS = steps.steps()


class WalkThrough(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name) / steps.NAME
        walk_through.new_port(ROOT, "--directory", self.folder)

    def port(self, *arguments: object, status: int = 0) -> str:
        done = dapl_port(ROOT, *arguments, "--directory", self.folder)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def expect(self, done: list[str]) -> None:
        """Expects that status knows the finished groups and the next, and check the claims that
        come too early.
        """
        told = json.loads(self.port("status", "--json"))
        left = {name: each.number for name, each in PLACES.items() if name not in done}
        self.assertEqual((told["filled"], list(told["places"].items())),
                         (len(done), list(left.items())))
        if not left:
            self.assertRegex(told["next"], "^All that is claimed is written: run dapl-conformance")
            self.port("check")
            return
        first = next(PLACES[name] for name in left)
        group = KIT.groups[first.group]
        todo = ", ".join(name for name in left if PLACES[name].group == first.group)
        self.assertEqual(told["next"], f"{group['next']} To be written: {todo}. To try it:"
                         f" dapl-conformance --ia {steps.NAME}-lo"
                         + "".join(f" --case '{each}'" for each in group["tests"]))
        said = re.findall(r"claimed, but (\w+) is still to be written",
                          self.port("check", status=1))
        optional = {each.name for each in KIT.operations if not each.required}
        self.assertEqual(set(said), optional & set(left))

    def test_each_step(self) -> None:
        done: list[str] = []
        self.expect(done)
        for step in STEPS:
            with self.subTest(step=step.name):
                steps.apply_to(self.folder, step)
                done += step.places
                self.expect(done)
        self.assertEqual(sorted(done), sorted(PLACES))

    def test_for_eyes(self) -> None:
        for step in STEPS[:3]:
            steps.apply_to(self.folder, step)
        text = self.port("status")
        self.assertRegex(text, r"^filled: 14 of 32 operations written, 9 of 33 places filled in\n")
        self.assertIn("\n  memory region: done\n  completion queue\n    skeleton  "
                      " dapls_ib_cq_alloc              cq.cpp       place 10\n", text)
        self.assertIn("\nnext: Make completion queues; ", text)
        for step in STEPS[3:]:
            steps.apply_to(self.folder, step)
        text = self.port("status")
        self.assertRegex(text, r"^filled: 32 of 32 operations written, 33 of 33 places filled in\n")
        self.assertNotIn("place ", text)

    def test_the_last_is_the_filled_port(self) -> None:
        for step in STEPS:
            steps.apply_to(self.folder, step)
        with tempfile.TemporaryDirectory() as other:
            made = run(sys.executable, ROOT / "tests/filled_port/fill.py", "--output", other)
            self.assertEqual(made.returncode, 0, made.stderr)
            for path in pathlib.Path(other).iterdir():
                self.assertEqual(path.read_text(), (self.folder / path.name).read_text(), path.name)

    def test_a_step_that_does_not_fit(self) -> None:
        """Whatever it would edit is named, and nothing is changed."""
        before = steps.texts_of(self.folder)
        with self.assertRaisesRegex(steps.StepError, r"08-extended.toml: the port's port.hpp has 0"
                                                     " times what is to be edited:\n.*out.status"):
            steps.apply_to(self.folder, STEPS[7])
        self.assertEqual(steps.texts_of(self.folder), before)
        steps.apply_to(self.folder, STEPS[0])
        with self.assertRaisesRegex(steps.StepError, "01-hca.toml: .* has 0 times"):
            steps.apply_to(self.folder, STEPS[0])
        with self.assertRaisesRegex(steps.StepError, "02-pd.toml: the port has no place nowhere"):
            STEPS[1].finish(before, "nowhere")

    def test_the_guide_counts_what_is_written(self) -> None:
        rows = walk_through.table()
        self.assertEqual((rows[0].places, rows[0].lines), (0, 0))
        self.assertIn(f"the first {rows[0].passed} cases pass", walk_through.GUIDE.read_text())
        places = lines = 0
        counted = []
        for step in STEPS:
            places += len(step.places)
            lines += step.lines
            counted.append((places, lines))
        self.assertEqual([(each.places, each.lines) for each in rows[1:]], counted,
                         "tests/gen/judged_walk_test.py --renew writes the table anew")


if __name__ == "__main__":
    unittest.main()
