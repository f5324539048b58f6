#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Write docs/calls.md: the answers of each call in each state, on each port, and the cases that
judge them.

The answers are observed: `dapl-conformance --calls` has written them, one file for each adapter.
The cases are all that turn red under a fault of the call, by the table of the faults.
"""

import argparse
import collections
import dataclasses
import fnmatch
import itertools
import json
import pathlib
import re
import sys
import tomllib

import dat_entry_points
import rendering

ROOT = pathlib.Path(__file__).resolve().parents[1]
ANSWERS = ROOT / "tests/conformance/answers"
FAULTS = ROOT / "tests/fault_port/faults.toml"
API = ROOT / "gen/dat_api.toml"
OUTPUT = ROOT / "docs/calls.md"

# The adapters in the order of the page, and their names in cells.
ADAPTERS = {"soft-lo": "soft", "ofi-lo": "ofi", "ofi-rdm-tcp": "rdm", "verbs-rxe0": "rxe",
            "verbs-siw0": "siw"}
FOR_PROVIDERS = "dats_get_ia_handle"
TITLES = {
    "Library": "The library", "Any": "Objects of every type", "IA": "Adapters",
    "EVD": "Event dispatchers", "CNO": "Consumer notification objects", "EP": "Endpoints",
    "PSP": "Public service points", "RSP": "Reserved service points",
    "CSP": "Common service points", "CR": "Connection requests", "PZ": "Protection zones",
    "LMR": "Local memory regions", "RMR": "Remote memory regions", "SRQ": "Shared receive queues",
}
# States of an endpoint, by the subtype that a refusal has there.
OWN_STATES = {
    "unconnected": "UNCONNECTED", "reserved": "RESERVED",
    "active connection pending": "ACTCONNPENDING", "passive connection pending": "PASSCONNPENDING",
    "tentative connection pending": "TENTCONNPENDING", "completion pending": "COMPLPENDING",
    "connected": "CONNECTED", "disconnect pending": "DISCPENDING", "disconnected": "DISCONNECTED",
}
SHORT = {
    "DAT_SUCCESS": "✓", "DAT_MODEL_NOT_SUPPORTED": "unsupported",
    "DAT_NOT_IMPLEMENTED": "not implemented", "DAT_QUEUE_EMPTY (bare)": "empty",
    "DAT_TIMEOUT_EXPIRED (bare)": "timeout", None: "–",
}

UNSUPPORTED = ("unsupported", "not implemented")

Answers = dict[str, dict[str, dict[str, str | None]]]  # object, call, state


class AnswersError(Exception):
    pass


@dataclasses.dataclass
class Row:
    call: str
    how: str
    notes: str  # ports that refuse the call in all states
    cells: list[str]
    cases: str


@dataclasses.dataclass
class Table:
    title: str
    states: list[str]
    rows: list[Row]
    absent: list[str]  # sentences: which adapter has no such object or state


def read_answers(folder: pathlib.Path) -> dict[str, Answers]:
    """Reads the answers of each adapter that has a file there."""
    found = {}
    for adapter in ADAPTERS:
        path = folder / f"{adapter}.json"
        if path.exists():
            told = json.loads(path.read_text())
            if told["adapter"] != adapter:
                raise AnswersError(f"{path}: these are the answers of {told['adapter']}")
            found[adapter] = told["answers"]
    return found


def call_of(row: str) -> str:
    return row.split(",")[0]


def short(answer: str | None, of: str, state: str) -> str:
    """The answer as a cell has it."""
    if answer in SHORT:
        return SHORT[answer]
    kind, _, subtype = answer.replace("DAT_", "").partition("/")
    subtype = re.sub(r"^(?:INVALID_)?(?:STATE_|HANDLE_|RESOURCE_)?", "", subtype)
    if kind == "INVALID_HANDLE" and subtype in ("", of, "HANDLE1", "1"):
        return "handle"
    if kind == "INVALID_STATE" and subtype == f"EP_{OWN_STATES.get(state)}":
        return "state"
    return f"`{kind}/{subtype}`" if subtype else f"`{kind}`"


def runs_of(ids: list[str]) -> str:
    """EVD-01, EVD-02, EVD-03, EVD-07 as EVD-01–03, 07."""
    groups: dict[str, list[int]] = {}
    for each in ids:
        group, number = each.rsplit("-", 1)
        groups.setdefault(group, []).append(int(number))
    parts = []
    for group, numbers in groups.items():
        runs = []
        for _, run in itertools.groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0]):
            span = [number for _, number in run]
            runs.append(f"{span[0]:02}" if len(span) == 1 else f"{span[0]:02}–{span[-1]:02}")
        parts.append(f"{group}-{', '.join(runs)}")
    return "; ".join(parts)


def cases_of(faults: dict) -> dict[str, list[str]]:
    """Maps each call to the cases that a fault of it turns red."""
    calls = collections.defaultdict(set)
    names = dat_entry_points.api(tomllib.loads(API.read_text()))["exported"]
    for fault in faults["fault"]:
        for plan in fault["plan"].split(","):
            pattern = plan.split(":")[0]
            for name in names if pattern.startswith("dat_") else ():
                if fnmatch.fnmatchcase(name, pattern):
                    calls[name].update(fault.get("red", ()))
    return {name: sorted(cases) for name, cases in calls.items()}


def never(answers: Answers, of: str, state: str) -> bool:
    """Whether no call could be made in this state."""
    return all(states.get(state) is None for states in answers.get(of, {}).values())


def alike(told: dict[str, str]) -> dict[str, str]:
    """Maps each answer to the adapters that have given it."""
    names: dict[str, list[str]] = {}
    for adapter, answer in told.items():
        names.setdefault(answer, []).append(ADAPTERS[adapter])
    return {answer: ", ".join(each) for answer, each in names.items()}


def cell(told: dict[str, str]) -> str:
    if not told:
        return "–"
    first, *others = alike(told).items()
    return "<br>".join([first[0], *(f"{names}: {answer}" for answer, names in others)])


def refusal(usual: list[str], told: list[str]) -> str | None:
    """How an adapter refuses what another one does, if it does so everywhere: in place of each
    answer, of each but of bad handles, or of each success and refusal for the state."""
    pairs = [(here, there) for here, there in zip(usual, told) if there != SHORT[None]]
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    answers = {there for _, there in differing}
    if len(answers) != 1 or not answers <= set(UNSUPPORTED):
        return None
    answer = answers.pop()
    if differing == [pair for pair in pairs if pair[0] != "handle"]:
        return answer
    if differing == pairs:
        return f"{answer}, for handle too"
    if differing == [pair for pair in pairs if pair[0] in ("✓", "state")]:
        return f"{answer}, for ✓ and state"
    return None


def absences(of: str, states: list[str], observed: dict[str, Answers]) -> list[str]:
    told = []
    for adapter, answers in observed.items():
        missing = [state for state in states if never(answers, of, state)]
        if len(missing) == len(states):
            told.append(f"{adapter} has none.")
        elif missing:
            told.append(f"Not on {adapter}: {', '.join(missing)}.")
    return told


def table_of(of: str, observed: dict[str, Answers], cases: dict[str, list[str]]) -> Table:
    usual, *others = observed
    first = observed[usual][of]
    states = list(next(iter(first.values())))
    rows = []
    named: set[str] = set()
    for row in first:
        told = {adapter: [short(answers[of][row][state], of, state) for state in states]
                for adapter, answers in observed.items()}
        refusals = {adapter: how for adapter in others
                    if (how := refusal(told[usual], told[adapter]))}
        cells = [cell({adapter: told[adapter][place] for adapter, answers in observed.items()
                       if adapter not in refusals and not never(answers, of, state)})
                 for place, state in enumerate(states)]
        call, _, how = row.partition(", ")
        judges = "" if call in named else runs_of(cases.get(call, []))
        notes = "".join(f"<br>{names}: {answer}" for answer, names in alike(refusals).items())
        rows.append(Row(call, how, notes, cells, judges))
        named.add(call)
    return Table(TITLES[of], states, rows, absences(of, states, observed))


def works(states: dict[str, str | None]) -> bool:
    """Whether the call serves its purpose in some state."""
    return any(answer == "DAT_SUCCESS" for answer in states.values())


def unsupported(answers: Answers) -> list[str]:
    """Rows that are refused as not supported, in every state, by their objects."""
    return [f"`{row}` ({of})" for of, rows in answers.items() for row, states in rows.items()
            if not works(states) and any(SHORT.get(each) in UNSUPPORTED
                                         for each in states.values())]


def calls_refused_always(answers: Answers) -> list[str]:
    """Calls that have a success on no object, in no way."""
    worked = {call_of(row): False for rows in answers.values() for row in rows}
    for rows in answers.values():
        for row, states in rows.items():
            worked[call_of(row)] |= works(states)
    return [call for call, well in worked.items() if not well]


def check(observed: dict[str, Answers]) -> None:
    """Checks that all adapters have equal rows, and that each call that libdat2 exports has one."""
    rows = {adapter: [(of, row, tuple(states)) for of, calls in answers.items()
                      for row, states in calls.items()] for adapter, answers in observed.items()}
    (first, expected), *others = rows.items()
    for adapter, found in others:
        if found != expected:
            odd = sorted(set(expected) ^ set(found)) or ["another order"]
            raise AnswersError(f"{adapter} and {first} differ in their rows: {odd[0]}")
    there = {call_of(row) for _, row, _ in expected}
    exported = set(dat_entry_points.api(tomllib.loads(API.read_text()))["exported"])
    if there != exported - {FOR_PROVIDERS}:
        raise AnswersError("calls and rows differ: "
                           + ", ".join(sorted(there ^ (exported - {FOR_PROVIDERS}))))


def page(observed: dict[str, Answers], cases: dict[str, list[str]]) -> str:
    check(observed)
    first = next(iter(observed.values()))
    return rendering.render(
        pathlib.Path(__file__).with_name("calls.md.in"),
        adapters={adapter: ADAPTERS[adapter] for adapter in observed},
        tables=[table_of(of, observed, cases) for of in first],
        refused={adapter: unsupported(answers) for adapter, answers in observed.items()},
        calls=len({call_of(row) for rows in first.values() for row in rows}),
    )


def current(folder: pathlib.Path = ANSWERS) -> str:
    return page(read_answers(folder), cases_of(tomllib.loads(FAULTS.read_text())))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, default=OUTPUT)
    parser.add_argument("--check", action="store_true", help="only say whether it is up to date")
    options = parser.parse_args()
    try:
        text = current()
    except AnswersError as error:
        print(error, file=sys.stderr)
        return 1
    if not options.check:
        options.output.write_text(text)
    elif not options.output.exists() or options.output.read_text() != text:
        print(f"{options.output} is out of date; run: python3 gen/call_answers.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
