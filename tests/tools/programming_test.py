#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The C of docs/programming: each piece is a part of an example, or compiles as the body of a function.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

OPTIONS = argparse.Namespace()
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs/programming").glob("*.md"))
EXAMPLE = (ROOT / "examples/hello.c").read_text()
# What the pieces refer to.
HEAD = """\
#include <dat2/dat_event_names.h>
#include <dat2/udat.h>
#include <stdio.h>
#include <string.h>

void check(DAT_RETURN status, const char *call);
void handle(const DAT_EVENT *event);
#define CHECK(call) check((call), #call)
"""
FUNCTION = """
void piece_{number}(void);
void piece_{number}(void)
{{
    extern DAT_NAME_PTR name;
    extern DAT_IA_HANDLE ia;
    extern DAT_PZ_HANDLE pz;
    extern DAT_EP_HANDLE ep;
    extern DAT_CNO_HANDLE cno;
    extern DAT_EVD_HANDLE evd, async_evd, recv_evd, request_evd, conn_evd, triggered;
    extern DAT_LMR_HANDLE lmr;
    extern DAT_LMR_TRIPLET part;
    extern DAT_DTO_COOKIE dto_cookie;
    DAT_EVENT event;
    DAT_COUNT more;
    DAT_RETURN status;
    DAT_FD fd;

    {{
#line {line} "{page}"
{piece}
    }}
}}
"""


def pieces(text: str) -> list[tuple[int, str]]:
    """Blocks of C, each with the number of its first line."""
    return [(text.count("\n", 0, found.start(1)) + 1, found[1])
            for found in re.finditer(r"(?ms)^```c\n(.*?)^```", text)]


def quoted(piece: str) -> bool:
    """Whether the example has these lines, whole."""
    return f"\n{piece}" in EXAMPLE


class Pieces(unittest.TestCase):
    def test_each_is_true(self) -> None:
        source, of_the_example, compiled = HEAD, 0, 0
        for page in PAGES:
            for line, piece in pieces(page.read_text()):
                if quoted(piece):
                    of_the_example += 1
                    continue
                compiled += 1
                source += FUNCTION.format(number=compiled, line=line, piece=piece, page=page)
        self.assertGreater(of_the_example, 5)
        self.assertGreater(compiled, 5)
        with tempfile.TemporaryDirectory(prefix="programming-") as folder:
            path = pathlib.Path(folder) / "pieces.c"
            path.write_text(source)
            done = subprocess.run([*OPTIONS.compiler, "-std=c99", "-Wall", "-Wextra", "-Wpedantic",
                                   "-Werror", "-Wno-unused", "-Wno-unused-but-set-variable",
                                   f"-I{ROOT}/include", "-fsyntax-only", path],
                                  capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_lines_that_the_example_has(self) -> None:
        self.assertTrue(quoted("    CHECK(dat_pz_create(side->ia, &side->pz));\n"))
        self.assertFalse(quoted("CHECK(dat_pz_create(side->ia, &side->pz));\n"))

    def test_names(self) -> None:
        """What the pages call DAT_* or dat_* is in a header."""
        known = "".join(path.read_text() for path in (ROOT / "include/dat2").glob("*.h"))
        for page in PAGES:
            text = textwrap.dedent(page.read_text())
            for name in set(re.findall(r"\b(?:DAT|dat)_\w+", text)) - {"DAT_FD"}:
                self.assertRegex(known, rf"\b{name}\b", page.name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("compiler", nargs="+", help="of C, after --")
    parser.parse_args(namespace=OPTIONS)
    program = unittest.main(argv=sys.argv[:1], exit=False)
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
