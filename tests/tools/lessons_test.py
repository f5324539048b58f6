#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Each of the thirty lessons of docs/design/field-lessons.md has tests, and they exist.

A case of the suite counts if a fault has turned it red; a unit test is named by its file and title.
"""

import pathlib
import re
import sys
import tomllib
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "gen"))
sys.dont_write_bytecode = True

import contract  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/design/field-lessons.md"
FAULTS = ROOT / "tests/fault_port/faults.toml"
TABLE = ROOT / "gen/dapls_ib.toml"
NUMBERS = range(1, 31)
CASE = re.compile(r"\b[A-Z]+-\d\d\b")
UNIT = re.compile(r"`(tests/[\w/]+\.(?:cpp|py))`:\s+\*([^*]+)\*")
# The folders loaded into other people's processes.
LIBRARIES = ("common", "contract", "dat", "osd", "port_support", "transports")
NAME_SERVICE = re.compile(r"\b(?:\w*getaddrinfo|getnameinfo|gethostby\w+|res_n?query)\s*\(")


def lessons(page: str) -> dict[int, str]:
    """The text behind "Kept by", by number."""
    found = {}
    for number, text in re.findall(r"(?ms)^(\d+)\. (.*?)(?=^\d+\. |\Z)", page):
        found[int(number)] = text.partition("Kept by")[2]
    return found


def units(text: str) -> list[tuple[str, str]]:
    return [(path, " ".join(title.split())) for path, title in UNIT.findall(text)]


def titles(path: pathlib.Path) -> set[str]:
    """The titles of a C++ or a Python test; a title may be on several lines."""
    text = re.sub(r'"\s*\n\s*"', "", path.read_text())
    return {*re.findall(r'TEST_CASE\(\s*"([^"]*)"', text), *re.findall(r"def (test_\w+)", text)}


def problems(page: str, red: set[str]) -> list[str]:
    found = []
    kept = lessons(page)
    if sorted(kept) != list(NUMBERS):
        found.append(f"the lessons are {sorted(kept)}")
    for number, text in kept.items():
        cases = CASE.findall(UNIT.sub("", text))
        if not cases and not units(text):
            found.append(f"{number}: no test")
        found += [f"{number}: no fault turns {case} red" for case in cases if case not in red]
        for path, title in units(text):
            if not (ROOT / path).exists():
                found.append(f"{number}: there is no {path}")
            elif title not in titles(ROOT / path):
                found.append(f"{number}: {path} has no '{title}'")
    return found


class Lessons(unittest.TestCase):
    def setUp(self) -> None:
        self.page = PAGE.read_text()
        faults = tomllib.loads(FAULTS.read_text())
        rows = contract.faults_of_rows(contract.read_table(TABLE))
        self.red = {case for fault in faults["fault"] + rows for case in fault.get("red", ())}

    def test_each_is_kept(self) -> None:
        self.assertEqual(problems(self.page, self.red), [])

    def test_what_would_be_found(self) -> None:
        for old, new, says in (
                ("\n8. ", "\n38. ", "the lessons are"),
                ("EVD-13", "EVD-99", "8: no fault turns EVD-99 red"),
                ("Kept by EVD-13", "Kept", "8: no test"),
                ("address_test.cpp", "addresses_test.cpp", "26: there is no tests/osd/addresses"),
                ("are copied whole", "are copied", "26: tests/osd/address_test.cpp has no")):
            with self.subTest(new):
                self.assertIn(old, self.page)
                changed = problems(self.page.replace(old, new), self.red)
                self.assertIn(says, "\n".join(changed))

    def test_no_library_asks_a_name_service(self) -> None:
        """No library asks a name service: a caller may wait for it, or get an address that no
        interface has.
        """
        found = [f"{path.relative_to(ROOT)}: {match[0]}" for room in LIBRARIES
                 for path in sorted((ROOT / room).rglob("*.[ch]pp"))
                 for match in NAME_SERVICE.finditer(path.read_text())]
        self.assertEqual(found, [])

    def test_a_name_service_would_be_found(self) -> None:
        self.assertTrue(NAME_SERVICE.search("rdma_getaddrinfo(host, nullptr, &hints, &list)"))
        self.assertFalse(NAME_SERVICE.search("freeaddrinfo(list)"))


if __name__ == "__main__":
    unittest.main()
