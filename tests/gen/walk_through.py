# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The walk through docs/porting.md: a new port that is filled in by the steps of tests/filled_port,
and what the guide's table promises of each."""

import dataclasses
import pathlib
import re
import sys
import tomllib

from trees import ROOT, dapl_port

sys.path.insert(0, str(ROOT / "tests/filled_port"))
import steps  # noqa: E402

COUNTS = pathlib.Path(__file__).with_name("walk_through.toml")
COUNTS_HEAD = """\
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# How many cases of each group pass when a step of the walk through docs/porting.md is done. Written
# by judged_walk_test.py --renew.

"""
GUIDE = ROOT / "docs/porting.md"
TABLE = re.compile(r"(\| filled in \|.*\n\|[-|]+\|\n)((?:\|.*\n)+)")


@dataclasses.dataclass
class Row:
    """What the guide promises when a step is done."""

    title: str
    places: int
    lines: int
    passed: int
    green: list[str]  # groups of cases that were not before

    def __str__(self) -> str:
        words = (self.title, self.places, self.lines, self.passed, ", ".join(self.green))
        return "".join(f"| {word} " for word in words).replace("|  ", "| ") + "|\n"


def row_in(line: str) -> Row:
    title, places, lines, passed, green = (word.strip() for word in line[1:-1].split("|"))
    return Row(title, int(places), int(lines), int(passed),
               [each for each in green.split(", ") if each])


def table() -> list[Row]:
    found = TABLE.search(GUIDE.read_text())
    if found is None:
        raise AssertionError(f"{GUIDE} has no table of what is filled in")
    return [row_in(line) for line in found[2].splitlines()]


def counts() -> dict[str, dict[str, int]]:
    return tomllib.loads(COUNTS.read_text())


def renew(rows: list[Row], counted: dict[str, dict[str, int]]) -> None:
    """Write the counted numbers, in the guide, too."""
    COUNTS.write_text(COUNTS_HEAD + "".join(
        f'"{title}" = {{ {", ".join(f"{name} = {number}" for name, number in groups.items())} }}\n'
        for title, groups in counted.items()))
    text = GUIDE.read_text()
    GUIDE.write_text(TABLE.sub(lambda found: found[1] + "".join(map(str, rows)), text))


def new_port(kit: pathlib.Path, *where: object) -> None:
    """What the steps begin with."""
    port = steps.PORT
    done = dapl_port(kit, "new", port.name, "--style", port.style, "--vendor", port.vendor,
                     "--licence", port.licence, "--claims", ",".join(port.claims),
                     "--cm", port.cm, "--keys", port.keys, *where)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
