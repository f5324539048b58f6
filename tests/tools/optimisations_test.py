#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The counted tables of docs/optimisations.md, counted again.

With --probe it counts the rows of the port as it is and without all flags, from the libraries of
this build; with --build all rows, by dapl-port features, which runs the suite over each flag too. A
count may differ by a twentieth, instructions by two in any case and context switches by a third:
compilers change the first, also by the files they read together, the scheduler the second. A flag's
worth is the difference of two counts, both of which may differ.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "gen"))
import flag_runs  # noqa: E402
import flag_worth  # noqa: E402
from flag_worth import ALL, AS_CLAIMED, CONTROL  # noqa: E402

OPTIONS = argparse.Namespace()
DOCUMENT = ROOT / "docs/optimisations.md"
ALLOWED = {"instructions": 2, "context": 1 / 3, "wake-ups": 1 / 3}
ATTEMPTS = 5  # on a busy machine some calls take another path


def cells_of(line: str) -> list[str]:
    return [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]


def told_tables(adapter: str) -> dict[str, dict[str, dict[str, str]]]:
    """The tables of the document about an adapter: title, row, column."""
    tables: dict[str, dict] = {}
    for block in re.findall(r"(?m)(?:^\|.*\n)+", DOCUMENT.read_text()):
        head, _, *rows = block.splitlines()
        title = re.match(rf"\| `{re.escape(adapter)}`: ([^|]+?) \|", head)
        if title and not title[1].startswith("time"):
            columns = cells_of(head)[1:]
            tables[title[1]] = {cells[0]: dict(zip(columns, cells[1:]))
                                for cells in map(cells_of, rows)}
    return tables


def value_of(cell: str) -> float | None:
    return None if cell == "?" else 0.0 if cell == "·" else float(cell)


def differences(told: dict, found: list[flag_worth.Table], rows: set[str] | None) -> list[str]:
    """Cells that are too far apart; rows and tables that only one side has."""
    wrong = []
    counted = {table.title: table for table in found}
    for title, table in told.items():
        if title not in counted:
            wrong.append(f"not counted any more, or all zero: {title}")
            continue
        now = counted[title]
        if rows is None and set(now.rows) != set(table):
            wrong.append(f"{title}: rows {sorted(set(now.rows) ^ set(table))}")
        for row in set(now.rows) & set(table) & (rows or set(table)):
            for column, cell in zip(now.columns, now.rows[row]):
                value = value_of(table[row][column])
                if value is None or cell.value is None:
                    continue
                counts = abs(value)
                if row != AS_CLAIMED:
                    counts += 2 * abs(value_of(table[AS_CLAIMED][column]) or 0)
                allowed = max(ALLOWED.get(title.split()[0], 0.2), counts / 20)
                if abs(cell.value - value) > allowed:
                    wrong.append(f"{title}, {row}, {column}: {cell.value:g}, the document has"
                                 f" {value:g}")
    return wrong


def count(adapter: str, line: str) -> dict:
    told = subprocess.run([sys.executable, ROOT / "bench/instructions.py", adapter, "--probe",
                           OPTIONS.probe, "--json", "-", *([f"--{line}"] if line else [])],
                          check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(told[told.index("{"):])["calls"]


class Counted(unittest.TestCase):
    def test_every_line_of_the_document_is_read(self) -> None:
        self.assertTrue(told_tables(OPTIONS.adapter))
        for title, rows in told_tables(OPTIONS.adapter).items():
            self.assertLessEqual({AS_CLAIMED, CONTROL, ALL}, set(rows), title)

    def test_this_build(self) -> None:
        if OPTIONS.probe is None:
            self.skipTest("all rows are counted instead")
        told = {title: rows for title, rows in told_tables(OPTIONS.adapter).items()
                if "per call" in title}
        for _ in range(ATTEMPTS):
            found = differences(told, self.count_this_build(), {AS_CLAIMED, ALL})
            if not found:
                break
        self.assertEqual(found, [])

    def count_this_build(self) -> dict:
        counts = {CONTROL: {}, ALL: {}}
        for line in flag_worth.LINES:
            claimed = count(OPTIONS.adapter, line)
            counts[CONTROL] |= flag_runs.counts_of(line, claimed, claimed)
            plain = count(f"{OPTIONS.adapter}-plain", line)
            counts[ALL] |= flag_runs.counts_of(line, claimed, plain)
        return flag_worth.tables_of({"flags": {row: {"counts": each, "times": {}}
                                               for row, each in counts.items()}})

    def test_every_flag(self) -> None:
        if OPTIONS.build is None:
            self.skipTest("only with --build")
        results = OPTIONS.build / "features.json"
        done = subprocess.run([sys.executable, ROOT / "gen/dapl-port", "features", OPTIONS.port,
                               "--adapter", OPTIONS.adapter, "--no-times", "--build",
                               OPTIONS.build / "out", "--json", results], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        found = flag_worth.tables_of(json.loads(results.read_text()))
        self.assertEqual(differences(told_tables(OPTIONS.adapter), found, None), [])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adapter", required=True)
    parser.add_argument("--port", required=True)
    parser.add_argument("--probe")
    parser.add_argument("--build", type=pathlib.Path)
    parser.parse_known_args(namespace=OPTIONS)
    if OPTIONS.build is not None:
        OPTIONS.build.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=sys.argv[:1])
