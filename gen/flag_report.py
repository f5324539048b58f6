# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What flags are worth, as text for a terminal, as a table of a document, and as a page."""

import pathlib

import flag_worth
import rendering
from flag_worth import ALL, AS_CLAIMED, CONTROL, Cell, Table

TEMPLATE = pathlib.Path(__file__).with_name("flag_page.html.in")
COLOURS = {1: "\033[32m", -1: "\033[31m", 0: ""}
LEGEND = ("The first row is the port as it is, the others what a flag saves: the count without it"
          " less the count with it. · is no difference.")


def suite_text(found: dict[str, dict]) -> str:
    """Outcomes with and without the flag."""
    def side(name: str) -> str:
        told = found[name]
        text = ", ".join(f"{count} {outcome}" for outcome, count in told["outcomes"].items())
        return text + (f" ({', '.join(told['bad'])})" if told["bad"] else "")
    return f"with: {side('with')}; without: {side('without')}" if found else ""


def suite_failed(results: dict) -> bool:
    return any(side["bad"] for found in results["flags"].values()
               for side in found["suite"].values())


def head_of(results: dict) -> list[str]:
    lines = [f"{results['port']}, adapter {results['adapter']}, commit {results['commit']}",
             results["compiler"], results["machine"]]
    lines += [f"not counted: {what}: {why}" for what, why in results["not_counted"].items()]
    return lines


def coloured(cell: Cell, width: int, colour: bool) -> str:
    text = f"{cell.text:>{width}}"
    return f"{COLOURS[cell.judged]}{text}\033[0m" if colour and cell.judged else text


def text_of_table(table: Table, colour: bool) -> list[str]:
    left = max(len(name) for name in table.rows)
    widths = [max(len(column), *(len(row[at].text) for row in table.rows.values())) + 2
              for at, column in enumerate(table.columns)]
    lines = [f"{'':<{left}}" + "".join(f"{column:>{width}}" for column, width
                                       in zip(table.columns, widths))]
    for name, row in table.rows.items():
        lines.append(f"{name:<{left}}" + "".join(coloured(cell, width, colour)
                                                 for cell, width in zip(row, widths)))
    return lines


def as_text(results: dict, colour: bool = False) -> str:
    lines = [*head_of(results), "", LEGEND]
    for table in flag_worth.tables_of(results):
        lines += ["", table.title, *text_of_table(table, colour)]
    lines += ["", "the flags"]
    for flag, found in results["flags"].items():
        off = f"; off with it: {', '.join(found['off_too'])}" if found["off_too"] else ""
        lines.append(f"{flag:<16} {found['text']}{off}")
        if suite := suite_text(found["suite"]):
            lines.append(f"{'':<16} suite {suite}")
    return "\n".join(lines)


def as_markdown(results: dict) -> str:
    """The counted tables, for docs/optimisations.md."""
    lines = []
    for table in flag_worth.tables_of(results):
        lines += [f"| `{results['adapter']}`: {table.title} | {' | '.join(table.columns)} |",
                  "|---" * (1 + len(table.columns)) + "|"]
        for name, row in table.rows.items():
            shown = name if name in (AS_CLAIMED, CONTROL, ALL) else f"`{name}`"
            lines.append(f"| {shown} | {' | '.join(cell.text for cell in row)} |")
        lines.append("")
    return "\n".join(lines)


# ---------------------------------------------------------------------------------------- the page

LABEL, WIDTH, ROW, TOP = 150, 116, 22, 34


def bars(table: Table) -> dict:
    """A panel of a bar for each flag and column: to the right its saving, to the left its cost."""
    rows = {name: row for name, row in table.rows.items() if name != AS_CLAIMED}
    largest = max((abs(cell.value or 0) for row in rows.values() for cell in row), default=0) or 1
    marks = []
    for at, (name, row) in enumerate(rows.items()):
        for column, cell in enumerate(row):
            middle = LABEL + column * WIDTH + WIDTH / 2
            size = abs(cell.value or 0) / largest * (WIDTH / 2 - 26)
            marks.append({"x": middle if cell.judged >= 0 else middle - size,
                          "y": TOP + at * ROW + 5, "width": size, "text": cell.text,
                          "judged": cell.judged,
                          "at": middle + (size + 4 if cell.judged >= 0 else -size - 4),
                          "anchor": "start" if cell.judged >= 0 else "end"})
    return panel(table, list(rows), marks, [])


def dots(table: Table, flags: dict[str, dict]) -> dict:
    """A panel of ratios: median and middle half, and in grey the middle half of the noise."""
    names = {title: test for test, title in flag_worth.TIMES.items()}
    tests = [names[column] for column in table.columns]
    ends = [found["times"][test][end] for found in flags.values() for test in tests
            if test in found["times"] for end in ("low", "high")]
    reach = max([abs(end - 1) for end in ends] + [0.05])
    marks, noise = [], []
    for column, test in enumerate(tests):
        middle = LABEL + column * WIDTH + WIDTH / 2

        def place(ratio: float) -> float:
            return middle + (ratio - 1) / reach * (WIDTH / 2 - 8)
        control = flags[CONTROL]["times"][test]
        noise.append({"x": place(control["low"]),
                      "width": place(control["high"]) - place(control["low"])})
        for at, (name, found) in enumerate(flags.items()):
            if told := found["times"].get(test):
                marks.append({"x": place(told["median"]), "low": place(told["low"]),
                              "high": place(told["high"]), "y": TOP + at * ROW + 11,
                              "judged": table.rows[name][column].judged,
                              "text": table.rows[name][column].text})
    return panel(table, list(flags), marks, noise)


def panel(table: Table, names: list[str], marks: list[dict], noise: list[dict]) -> dict:
    return {"title": table.title, "names": names, "columns": table.columns, "marks": marks,
            "noise": noise, "width": LABEL + WIDTH * len(table.columns) + 20,
            "height": TOP + ROW * len(names) + 8, "is_ratio": bool(noise),
            "base": [cell.text for cell in table.rows[AS_CLAIMED]]}


def panels_of(results: dict) -> list[dict]:
    flags = results["flags"]
    return [dots(table, flags) if table.title.startswith("time") else bars(table)
            for table in flag_worth.tables_of(results)]


def as_page(results: dict) -> str:
    return rendering.render(TEMPLATE, results=results, head=head_of(results), legend=LEGEND,
                            panels=panels_of(results), label=LABEL, column=WIDTH, row=ROW, top=TOP,
                            suites={flag: suite_text(found["suite"])
                                    for flag, found in results["flags"].items()})
