#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The manual pages list all options and environment variables, and man can render them."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import make_pages  # noqa: E402

OPTIONS = argparse.Namespace()
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*)")
COMMANDS = {"dapl-port": ["new", "status", "check", "upgrade", "features", "list"]}

# Environment variables in the sources: the arguments of functions that read them and, in the files
# that do so, every literal with one of our prefixes.
READS = re.compile(r'(?:getenv|environment|environment_number|envname|setting \w+)\("(\w+)"')
ROOMS = ("dat", "contract", "common", "osd", "port_support", "transports", "conformance", "bench", "tools")
OURS = re.compile(r'"((?:DAT|DAPL)_[A-Z_]+)"')


def help_of(program: str) -> str:
    commands = [[]] + [[each] for each in COMMANDS.get(pathlib.Path(program).name, [])]
    return "".join(subprocess.run([program, *each, "--help"], capture_output=True, text=True,
                                  check=True).stdout for each in commands)


def page_source(name: str) -> str:
    return next((OPTIONS.source / "docs/man").glob(f"{name}.[1-9].md")).read_text()


def bold(text: str) -> set[str]:
    return set(re.findall(r"\*\*([^*\s]+)\*\*", text.replace("\\*", "")))


class Manual(unittest.TestCase):
    def test_options(self) -> None:
        """The page of a program lists every option of its --help, and no other."""
        self.assertTrue(OPTIONS.program)
        for program in OPTIONS.program:
            with self.subTest(program):
                has = set(OPTION.findall(help_of(program)))
                self.assertIn("help", has)
                told = {each[3:] for each in bold(page_source(pathlib.Path(program).name))
                        if each.startswith("\\--")}
                self.assertEqual(told, has)

    def test_help_fits_a_terminal(self) -> None:
        for program in OPTIONS.program:
            # That one is told above to use 200 columns.
            if pathlib.Path(program).name != "dapl-port":
                wide = [line for line in help_of(program).splitlines() if len(line) > 80]
                self.assertEqual(wide, [], program)

    def test_environment(self) -> None:
        """dapl-environment(7) lists every variable that is read, and no other."""
        read = set()
        for room in ROOMS:
            for path in (OPTIONS.source / room).rglob("*.[ch]pp"):
                text = path.read_text()
                if found := set(READS.findall(text)):
                    read |= found
                if re.search(r"\b(getenv|environment|environment_number)\(", text):
                    read |= set(OURS.findall(text))
        self.assertGreaterEqual(len(read), 15)
        page = page_source("dapl-environment")
        told = {each for each in bold(page) if re.fullmatch(r"[A-Z]+(_[A-Z]+)*|ProgramData", each)}
        told -= {"FI_LOG_LEVEL"}
        told -= {"TMPDIR"}  # read by the C++ library
        self.assertEqual(told, read)

    def test_ranges_of_the_verbs_port(self) -> None:
        source = (OPTIONS.source / "transports/verbs/params.cpp").read_text()
        header = (OPTIONS.source / "transports/verbs/params.hpp").read_text()
        rows = re.findall(r'\{"([A-Z]\w+)", &adapter_params::(\w+), ([\d\']+), ([\d\']+)\}', source)
        self.assertGreaterEqual(len(rows), 10)
        page = page_source("dapl-environment")
        for name, member, least, most in rows:
            default = re.search(rf"\b{member} = (\d+);", header)[1]
            most = most.replace("'", "")
            self.assertIn(f"**{name}**\n:   Default {default}, from {least} to {most}.", page)

    def test_pages_that_are_named_exist(self) -> None:
        known = {path.name.removesuffix(".md") for path in
                 (OPTIONS.source / "docs/man").glob("*.md")}
        for path in (OPTIONS.source / "docs/man").glob("*.md"):
            for name, section in re.findall(r"\*\*([\w.-]+)\*\*\((\d)\)", path.read_text()):
                if name.startswith("da"):
                    self.assertIn(f"{name}.{section}", known, path.name)

    def test_man_can_show_them(self) -> None:
        self.assertTrue(OPTIONS.pages)
        if shutil.which("groff") is None:
            self.skipTest("groff is missing")
        for page in OPTIONS.pages:
            done = subprocess.run(["groff", "-ww", "-man", "-t", "-Kutf8", "-Tutf8", "-rLL=80n",
                                   page], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), page)
            shown = re.sub(r".\x08|\x1b\[[0-9;]*m", "", done.stdout)
            for heading in ("NAME", "DESCRIPTION", "SEE ALSO"):
                self.assertRegex(shown, rf"(?m)^{heading}$", page)
            self.assertRegex(shown, r"dapl \d+\.\d+\.\d+")  # shown in the last line
            self.assertNotIn("**", shown)  # unconverted Markdown
            self.assertEqual([line for line in shown.splitlines() if len(line) > 100], [], page)

    def test_mandoc_finds_no_fault(self) -> None:
        if shutil.which("mandoc") is None:
            self.skipTest("mandoc is missing")
        done = subprocess.run(["mandoc", "-T", "lint", *OPTIONS.pages], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.stdout + done.stderr, "")

    def test_markdown_that_pages_do_not_use_is_refused(self) -> None:
        """Nothing of a page is lost in silence."""
        head = "---\ntitle: X\nsection: 1\nheader: Y\n---\n"
        page = make_pages.page_of(head + "# NAME\n\nx - y\n", "1", "2026-01-01")
        self.assertIn(".SH NAME\nx - y\n", page)
        for text in ("- an item", "## A smaller heading", "> a quotation", "<b>HTML</b>", "```\nnot closed"):
            with self.assertRaises(make_pages.PageError, msg=text):
                make_pages.page_of(f"{head}# NAME\n\n{text}\n", "1", "2026-01-01")
        with self.assertRaises(make_pages.PageError):
            make_pages.page_of("# NAME\n", "1", "2026-01-01")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--program", action="append", default=[])
    parser.add_argument("--pages", nargs="*", default=[])
    rest = parser.parse_known_args(namespace=OPTIONS)[1]
    os.environ["COLUMNS"] = "200"  # argparse wraps at hyphens
    program = unittest.main(argv=[sys.argv[0], *rest], exit=False)
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
