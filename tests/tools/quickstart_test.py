#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How ./quickstart configures, with programs in the place of Meson and the compiler that only note what
they are asked for; and how ./check takes up a build."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))

import run_checks  # noqa: E402
PROGRAMS = {
    "meson": """echo "$@" >>"$NOTES"; mkdir -p build; touch build/build.ninja""",
    "ninja": """echo "the compiler was called" >&2; exit 1""",
    "compiler": """printf '#define %s\\n' "$MACRO" "__GNUC_MINOR__ 2" """,
    "pkg-config": """echo "$LIBRARIES" """,
}


class Quickstart(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="quickstart-")
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        self.notes = self.tree / "notes"
        self.libraries = self.tree / "pkgconfig"
        (self.tree / "tools").mkdir()
        self.libraries.mkdir()
        os.utime(self.libraries, (1, 1))
        shutil.copy(ROOT / "tools/terminal.sh", self.tree / "tools")
        self.script("tools/setup-packages", "exit 0")
        for name, text in PROGRAMS.items():
            self.script(name, text)
        text = (ROOT / "quickstart").read_text()
        self.assertIn("meson=/usr/bin/meson\n", text)
        text = text.replace("meson=/usr/bin/meson\n", f"meson={self.tree}/meson\n")
        (self.tree / "quickstart").write_text(text)

    def script(self, name: str, text: str) -> None:
        (self.tree / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.tree / name).chmod(0o755)

    def configured(self, macro: str = "__GNUC__ 12") -> list[str]:
        """The calls of Meson in one run."""
        self.notes.write_text("")
        done = subprocess.run(
            ["bash", "quickstart"], cwd=self.tree, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, check=False,
            env={**os.environ, "PATH": f"{self.tree}:{os.environ['PATH']}", "NOTES": str(self.notes),
                 "CXX": str(self.tree / "compiler"), "MACRO": macro,
                 "LIBRARIES": f"/nowhere:{self.libraries}"})
        self.assertIn("error: the build failed", done.stdout)
        return self.notes.read_text().splitlines()

    def test_warnings_are_errors_for_the_compilers_that_were_tried(self) -> None:
        for macro, strict in {
                "__GNUC__ 12": True, "__GNUC__ 13": False, "__GNUC__ 14": True, "__GNUC__ 16": True,
                "__GNUC__ 17": False, "__clang_major__ 14": True, "__clang_major__ 19": True,
                "__clang_major__ 21": True, "__clang_major__ 22": False}.items():
            with self.subTest(macro):
                shutil.rmtree(self.tree / "build", ignore_errors=True)
                [call] = self.configured(macro)
                self.assertIn(f"-Dwerror={str(strict).lower()}", call)

    def test_it_configures_once(self) -> None:
        [call] = self.configured()
        self.assertTrue(call.startswith("setup build -D"), call)
        self.assertEqual(self.configured(), [])

    def test_libraries_that_came_since_are_taken_up(self) -> None:
        self.configured()
        time.sleep(0.01)
        (self.libraries / "libfabric.pc").touch()
        self.assertEqual(self.configured(), ["setup --reconfigure build"])
        self.assertEqual(self.configured(), [])

    def test_check_takes_them_up_too(self) -> None:
        build = self.tree / "build"
        build.mkdir()
        with (mock.patch.object(run_checks, "build_dir", return_value=build),
              mock.patch.dict(os.environ, {"PATH": f"{self.tree}:{os.environ['PATH']}",
                                           "LIBRARIES": f"/nowhere:{self.libraries}"})):
            self.assertIn("setup", run_checks.configure_command("gcc"))
            (build / "build.ninja").touch()
            self.assertEqual(run_checks.configure_command("gcc"),
                             ["ninja", "-C", str(build), "build.ninja"])
            time.sleep(0.01)
            (self.libraries / "libfabric.pc").touch()
            self.assertEqual(run_checks.configure_command("gcc"),
                             [run_checks.MESON, "setup", "--reconfigure", str(build)])


class Targets(unittest.TestCase):
    """What ./check has ninja make for the tests that it runs."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="targets-")
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name)
        (self.build / "meson-info").mkdir()
        self.write("intro-tests.json", [{"name": "faults, a sample", "depends": ["conf"]},
                                        {"name": "layers", "depends": ["other"]}])
        self.write("intro-targets.json", [
            {"id": name, "build_by_default": name == "library", "filename": [f"{self.build}/{name}"]}
            for name in ("conf", "other", "library")])

    def write(self, name: str, content: list[dict]) -> None:
        (self.build / "meson-info" / name).write_text(json.dumps(content))

    def listed(self, line: str) -> list[str]:
        said = subprocess.CompletedProcess([], 0, f"{line}\n")
        with (mock.patch.object(run_checks, "build_dir", return_value=self.build),
              mock.patch.object(subprocess, "run", return_value=said)):
            return run_checks.targets("gcc", ("--setup", "quick"))

    def test_needs_of_tests_are_made_as_any_meson_lists_them(self) -> None:
        for line in ("dapl:faults+conformance / faults, a sample", "dapl / faults, a sample",
                     "faults, a sample", "faults+conformance - dapl:faults, a sample",
                     "dapl:faults, a sample"):
            with self.subTest(line):
                self.assertEqual(self.listed(line), ["conf", "library"])

    def test_a_line_that_names_no_test_is_an_error(self) -> None:
        with self.assertRaisesRegex(run_checks.StepFailed, "lists 'faults | a sample'"):
            self.listed("faults | a sample")


class Ahead(unittest.TestCase):
    """What ./check compiles for later steps, at the lowest priority."""

    def test_a_step_does_not_wait_at_the_lowest_priority(self) -> None:
        self.compiled_at_own_priority()

    def test_a_session_may_have_no_group(self) -> None:
        with tempfile.NamedTemporaryFile() as empty:
            self.compiled_at_own_priority(pathlib.Path(empty.name))

    def test_a_step_compiles_by_itself_if_its_session_cannot_be_raised(self) -> None:
        with tempfile.NamedTemporaryFile("w") as refused:
            refused.write("/autogroup-1 nice 99\n")
            refused.flush()
            self.compiled_at_own_priority(pathlib.Path(refused.name))

    def compiled_at_own_priority(self, session: pathlib.Path = run_checks.OWN_SESSION) -> None:
        folder = tempfile.TemporaryDirectory(prefix="ahead-")
        self.addCleanup(folder.cleanup)
        work = pathlib.Path(folder.name)
        ninja = work / "ninja"
        # On a busy machine nothing of that priority ends.
        ninja.write_text(f"""#!/bin/sh
echo began >>"$(dirname "$0")/began"
for round in $(seq 100); do
    [ "$(nice)" != {os.nice(0)} ] || exit 0
    sleep 0.05
done
echo starved
exit 1
""")
        ninja.chmod(0o755)
        ahead = run_checks.Ahead()
        with (mock.patch.object(run_checks, "WORK", work),
              mock.patch.object(run_checks, "ahead", ahead),
              mock.patch.object(run_checks, "OWN_SESSION", session),
              mock.patch.object(run_checks, "configure_command", return_value=["true"]),
              mock.patch.object(run_checks, "targets", return_value=[]),
              mock.patch.dict(os.environ, {"PATH": f"{work}:{os.environ['PATH']}"})):
            ahead.begin([("gcc", ())])
            while not (work / "began").exists():
                time.sleep(0.01)
            step = run_checks.Running("gcc")
            run_checks.compile_tree(step, "gcc")
            ahead.join()
        self.assertEqual(step.outcome.passed, 1)
        self.assertNotIn("starved", (work / "gcc-ahead.log").read_text())


if __name__ == "__main__":
    unittest.main()
