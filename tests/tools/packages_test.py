#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""tools/setup-packages, with a package manager that only notes its orders."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = {
    "dpkg-query": """case " $INSTALLED " in *" $4 "*) echo installed ;; *) exit 1 ;; esac""",
    # Longer than a pipe holds, for a reader that does not read it all.
    "apt-cache": """if [ $# = 1 ]; then
    echo " 100 /var/lib/dpkg/status"
    [ -z "$FETCHED" ] && ! grep -q update "$NOTES" ||
        echo " 500 http://deb.debian.org/debian trixie/main amd64 Packages"
    exit
fi
case " $ABSENT " in *" $2 "*) exit 0 ;; esac
echo "$2:"
echo "  Candidate: 1.0"
seq 100000""",
    "apt-get": """echo "$@" >>"$NOTES" """,
    "id": """echo "$WHO" """,
}
# What Debian 13 has no more.
ABSENT = "dapl2-utils libdapl-dev libdapl2 libclang-rt-14-dev python3-clang-14"


def names(which: str) -> list[str]:
    """The packages of a list, of alternatives the first."""
    text = (ROOT / f"tools/packages.{which}").read_text()
    return [found[1] for line in text.splitlines() if (found := re.match(r"([a-z0-9][^\s|#]*)", line))]


class SetupPackages(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="packages-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.notes = self.folder / "notes"
        self.notes.touch()
        for name, text in PROGRAMS.items():
            program = self.folder / name
            program.write_text(f"#!/bin/sh\n{text}\n")
            program.chmod(0o755)

    def asked(self, *arguments: str, absent: str = "", installed: str = "", fetched: bool = True,
              who: str = "0") -> tuple[int, str, list[str]]:
        done = subprocess.run(
            [ROOT / "tools/setup-packages", *arguments], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, check=False,
            env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "ABSENT": absent,
                 "INSTALLED": installed, "FETCHED": "yes" if fetched else "", "WHO": who,
                 "NOTES": str(self.notes)})
        return done.returncode, done.stdout, self.notes.read_text().splitlines()

    def test_what_can_be_had_is_installed_at_once(self) -> None:
        status, said, calls = self.asked("build", "clients")
        self.assertEqual(status, 0, said)
        self.assertEqual(len(calls), 1, calls)
        self.assertIn(" install ", calls[0])
        self.assertIn(" libfabric-dev", calls[0])

    def test_one_that_cannot_be_had_leaves_the_others(self) -> None:
        status, said, calls = self.asked("build", "clients", absent="libpmix-dev")
        self.assertEqual(status, 0, said)
        self.assertEqual(said.count("libpmix-dev"), 1, said)
        self.assertIn("libpmix-dev is in no package source of this machine; it is for: "
                      "libdapl-am, and a launcher of its jobs", said)
        self.assertEqual(len(calls), 1, calls)
        self.assertIn(" openmpi-bin", calls[0])
        self.assertNotIn("libpmix-dev", calls[0])

    def test_what_a_build_needs_is_an_error(self) -> None:
        status, said, calls = self.asked("build", absent="doctest-dev")
        self.assertEqual(status, 1, said)
        self.assertIn("error: doctest-dev is missing, and nothing can be built without it", said)
        self.assertIn(" ninja-build", calls[-1])

    def test_lists_that_were_never_fetched_are_fetched_first(self) -> None:
        status, said, calls = self.asked("build", fetched=False)
        self.assertEqual(status, 0, said)
        self.assertEqual([" update" in call for call in calls], [True, False])

    def test_debian_13_has_other_names_and_no_dapl(self) -> None:
        status, said, calls = self.asked(absent=ABSENT)
        self.assertEqual(status, 0, said)
        self.assertEqual(len(calls), 1, calls)
        wanted = [*names("build"), *names("clients"), *names("check")]
        for name in wanted:
            self.assertEqual(f" {name}" in f"{calls[0]} ", name not in ABSENT.split(), name)
        self.assertIn(" libclang-rt-dev", calls[0])
        self.assertIn(" python3-clang", calls[0])
        for name in ("dapl2-utils", "libdapl-dev", "libdapl2"):
            self.assertRegex(said, f"(?m)^{name} is in no package source of this machine; "
                             r"it is for: \w")
        self.assertNotIn("python3-clang-14", said)

    def test_another_name_that_is_installed_will_do(self) -> None:
        numbered = {"libclang-rt-dev": "libclang-rt-14-dev", "python3-clang": "python3-clang-14"}
        wanted = [*names("build"), *names("clients"), *names("check")]
        installed = " ".join(numbered.get(name, name) for name in wanted)
        self.assertEqual(self.asked(installed=installed), (0, "", []))

    def test_what_is_nowhere_needs_neither_root_nor_the_network_again(self) -> None:
        wanted = [*names("build"), *names("clients"), *names("check")]
        installed = " ".join(name for name in wanted if name not in ABSENT.split())
        for who in ("0", "1000"):
            status, said, calls = self.asked(absent=ABSENT, installed=installed, who=who)
            self.assertEqual((status, calls), (0, []), said)
            self.assertEqual(said.count("is in no package source"), 3, said)

    def test_who_is_not_root_hears_what_to_run(self) -> None:
        status, said, calls = self.asked("clients", absent="dapl2-utils", who="1000")
        self.assertEqual((status, calls), (1, []), said)
        self.assertRegex(said, "run: sudo apt-get install libfabric-dev (?!.*dapl2-utils)")
        status, said, calls = self.asked("build", fetched=False, who="1000")
        self.assertEqual((status, calls), (1, []), said)
        self.assertIn("run: sudo apt-get update && sudo apt-get install g++ ", said)

    def test_a_dry_run_says_what_would_be_installed(self) -> None:
        status, said, calls = self.asked("--dry-run", "clients", absent="dapl2-utils", who="1000")
        self.assertEqual((status, calls), (1, []), said)
        self.assertRegex(said, "Missing Debian packages: libfabric-dev (?!.*dapl2-utils)")


if __name__ == "__main__":
    unittest.main()
