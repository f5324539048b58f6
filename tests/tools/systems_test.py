#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""tools/systems/try-system, with programs in the place of debootstrap and unshare that only note what
they are asked for."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = {
    "debootstrap": """echo "debootstrap $2 $4" >>"$NOTES"; mkdir -p "$3"
case $FAILS in debootstrap) exit 1 ;; esac""",
    # The command in the system follows its environment.
    "unshare": """command="${*##* sh }"
[ "$command" = "$*" ] || echo "$command" >>"$NOTES"
[ "$command" != "$FAILS" ]""",
    "chroot": """echo "meson 1.7.0-1" """,
}
STEPS = ["./quickstart", "./check --quick"]
UPDATE = ["env DEBIAN_FRONTEND=noninteractive apt-get -qq update",
          "env DEBIAN_FRONTEND=noninteractive apt-get -qq -y dist-upgrade"]
MADE = "debootstrap trixie http://mirror"


@unittest.skipUnless(os.geteuid() == 0, "only root is let to make systems")
class TrySystem(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="systems-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.notes = self.folder / "notes"
        self.cache = self.folder / "cache"
        self.programs = self.folder / "programs"
        # A tree of its own, that changes.
        self.tree = self.folder / "tree"
        (self.tree / "tools/systems").mkdir(parents=True)
        shutil.copy(ROOT / "tools/systems/try-system", self.tree / "tools/systems")
        (self.tree / "tools/packages.build").write_text("# what for\nmeson # newest\n")
        (self.tree / "kept").write_text("1")
        self.programs.mkdir()
        for name, text in PROGRAMS.items():
            (self.programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (self.programs / name).chmod(0o755)

    def tried(self, *arguments: str, fails: str = "", path: str = "/usr/bin:/bin") -> tuple[int, str, list[str]]:
        self.notes.write_text("")
        done = subprocess.run(
            [self.tree / "tools/systems/try-system", "--cache", self.cache, "--mirror",
             "http://mirror", *(arguments or ["trixie"])],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            env={"PATH": f"{self.programs}:{path}", "NOTES": str(self.notes), "FAILS": fails,
                 "HOME": str(self.folder)})
        return done.returncode, done.stdout, self.notes.read_text().splitlines()

    def test_a_system_is_made_once_and_steps_that_passed_are_not_repeated(self) -> None:
        status, said, calls = self.tried()
        self.assertEqual((status, calls), (0, [MADE, *UPDATE, *STEPS]), said)
        note = json.loads((self.cache / "trixie.json").read_text())
        self.assertEqual(note["versions"], {"meson": "1.7.0-1"})
        self.assertEqual(self.tried()[::2], (0, UPDATE))

    def test_it_goes_on_at_the_step_that_failed(self) -> None:
        status, said, calls = self.tried(fails="./check --quick")
        self.assertEqual((status, calls), (1, [MADE, *UPDATE, *STEPS]), said)
        self.assertIn("./check --quick failed on trixie", said)
        self.assertEqual(self.tried()[::2], (0, [*UPDATE, "./check --quick"]))

    def test_a_tree_that_changed_is_tried_anew(self) -> None:
        self.tried()
        copy = self.cache / "trixie/root/dapl"
        (copy / "build").mkdir()
        (copy / "build/made").touch()
        before = (copy / "kept").stat().st_mtime_ns
        (self.tree / "kept").rename(self.tree / "moved")
        self.assertEqual(self.tried()[::2], (0, [*UPDATE, *STEPS]))
        self.assertEqual([(copy / name).exists() for name in ("kept", "moved", "build/made")],
                         [False, True, True])
        (self.tree / "kept").write_text("1")
        self.tried()
        moved = (copy / "moved").stat().st_mtime_ns
        self.tried()
        self.assertEqual((copy / "moved").stat().st_mtime_ns, moved)
        self.assertGreater(moved, before)

    def test_half_a_system_does_not_count(self) -> None:
        status, said, calls = self.tried(fails="debootstrap")
        self.assertEqual((status, calls), (77, [MADE]), said)
        self.assertIn("debootstrap could not make trixie from http://mirror", said)
        self.assertEqual(self.tried()[2], [MADE, *UPDATE, *STEPS])

    def test_without_a_network_it_goes_on_with_what_is_there(self) -> None:
        status, said, calls = self.tried(fails=UPDATE[0])
        self.assertEqual((status, calls), (0, [MADE, UPDATE[0], *STEPS]), said)
        self.assertIn("going on with the system as it is", said)

    def test_a_command_runs_in_place_of_the_steps(self) -> None:
        self.assertEqual(self.tried("--as-it-is", "trixie", "ninja", "-C", "build")[::2],
                         (0, [MADE, "ninja -C build"]))

    def test_packages_have_a_system_of_their_own(self) -> None:
        packages = "tools/systems/try-packages trixie http://mirror"
        status, said, calls = self.tried("--packages", "trixie")
        self.assertEqual((status, calls), (0, [MADE, *UPDATE, packages]), said)
        self.assertTrue((self.cache / "trixie-packages").is_dir())
        self.assertEqual(self.tried("--packages", "trixie")[::2], (0, UPDATE))
        self.assertEqual(self.tried()[2], [MADE, *UPDATE, *STEPS])

    def test_it_says_what_is_missing(self) -> None:
        (self.programs / "debootstrap").unlink()
        status, said, _ = self.tried(path=self.without("debootstrap"))
        self.assertEqual(status, 77, said)
        self.assertIn("debootstrap is missing, which makes the system\n"
                      "  on Debian: apt-get install debootstrap", said)

    def without(self, name: str) -> str:
        """A folder of programs in which one is lacking."""
        folder = self.folder / "without"
        folder.mkdir()
        for program in ("sh", "env", "python3", "mkdir", "git"):
            if found := shutil.which(program, path="/usr/bin:/bin"):
                (folder / program).symlink_to(found)
        self.assertFalse((folder / name).exists())
        return str(folder)


class WithoutRights(unittest.TestCase):
    @unittest.skipUnless(os.geteuid() == 0, "it starts the tool as another user")
    def test_who_is_not_root_hears_it(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "tools/systems/try-system")
            program.parent.mkdir(parents=True)
            shutil.copy(ROOT / "tools/systems/try-system", program)
            for path in (folder, *pathlib.Path(folder).rglob("*")):
                os.chmod(path, 0o755)
            done = subprocess.run(["python3", program, "trixie"], text=True, capture_output=True,
                                  user=65534, group=65534, check=False, cwd="/",
                                  env={**os.environ, "HOME": "/nonexistent"})
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertTrue(re.match("try-system: only root may make a system and enter it\n  run: sudo ",
                                 done.stderr), done.stderr)


if __name__ == "__main__":
    unittest.main()
