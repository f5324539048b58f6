#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Render a template of dat/ or of the common layer from the table of the DAT API."""

import argparse
import pathlib
import re
import sys
import tomllib

import jinja2

import rendering

# A first parameter of this type is no handle of one object: what a bad one is answered with.
SUBTYPES = {"DAT_HANDLE": "DAT_INVALID_HANDLE1", "DAT_EVD_HANDLE": "DAT_INVALID_HANDLE_EVD_REQUEST"}
LAST_SLOT = 80
KINDS = ("control", "ending", "query", "wait", "post", "data_path")
# The objects of the common layer that calls work on, the mark of each if its class has several, and
# the subtype for a bad handle.
OBJECTS = {
    "DAT_HANDLE": ("object", "", "DAT_NO_SUBTYPE"),
    "DAT_IA_HANDLE": ("adapter", "", "DAT_INVALID_HANDLE_IA"),
    "DAT_CNO_HANDLE": ("cno", "", "DAT_INVALID_HANDLE_CNO"),
    "DAT_CR_HANDLE": ("cr", "", "DAT_INVALID_HANDLE_CR"),
    "DAT_EVD_HANDLE": ("evd", "", "DAT_NO_SUBTYPE"),
    "DAT_EP_HANDLE": ("endpoint", "", "DAT_INVALID_HANDLE_EP"),
    "DAT_LMR_HANDLE": ("lmr", "", "DAT_INVALID_HANDLE_LMR"),
    "DAT_RMR_HANDLE": ("rmr", "", "DAT_INVALID_HANDLE_RMR"),
    "DAT_PSP_HANDLE": ("service_point", "psp", "DAT_INVALID_HANDLE_PSP"),
    "DAT_RSP_HANDLE": ("service_point", "rsp", "DAT_INVALID_HANDLE_RSP"),
    "DAT_CSP_HANDLE": ("service_point", "csp", "DAT_INVALID_HANDLE_CSP"),
    "DAT_PZ_HANDLE": ("pz", "", "DAT_INVALID_HANDLE_PZ"),
    "DAT_SRQ_HANDLE": ("shared_recv_queue", "", "DAT_INVALID_HANDLE_SRQ"),
}
COUNTER = re.compile(r"(IA|EP_POST|EP)_\w+")
WRAPPERS = {"IA": "of_adapter", "EP": "of_endpoint", "EP_POST": "of_post"}


class TableError(Exception):
    pass


def require(condition: bool, message: str) -> None:
    if not condition:
        raise TableError(message)


def split_parameter(text: str) -> dict[str, str]:
    match = re.fullmatch(r"(.*[ *])(\w+)", text)
    require(match is not None, f"parameter {text!r} is not 'type name'")
    return {"type": match[1].strip(), "name": match[2], "text": text}


def counter_of(name: str, entry: dict) -> dict[str, str] | None:
    if "counter" not in entry:
        return None
    match = COUNTER.fullmatch(entry["counter"])
    require(match is not None, f"{name}: counter {entry['counter']!r} is of neither IA nor EP")
    return {"name": f"DCNT_{match[0]}", "wrapper": WRAPPERS[match[1]]}


def dispatched(name: str, entry: dict) -> dict:
    parameters = [split_parameter(text) for text in entry["parameters"]]
    first = parameters[0]["type"]
    require(first.endswith("HANDLE"), f"{name}: first parameter {first!r} is no handle")
    kind = entry.get("call", "control")
    require(kind in KINDS, f"{name}: call {kind!r} is none of {', '.join(KINDS)}")
    require(kind != "query" or "fields" in entry, f"{name}: a query without fields")
    works_on, mark, bad_handle = OBJECTS[first]
    return {
        "name": name,
        "object": works_on,
        "mark": mark,
        "bad_handle": bad_handle,
        "fields": entry.get("fields"),
        "slot": entry["slot"],
        "additional": entry.get("additional", False),
        "kind": kind,
        "looks": entry.get("looks", False),
        "counter": counter_of(name, entry),
        "parameters": parameters,
        "forward": {"DAT_IA_HANDLE": "forward_ia", "DAT_HANDLE": "forward_any"}.get(first, "forward"),
        "subtype": SUBTYPES.get(first, "DAT_INVALID_" + re.sub(r"DAT_(\w+)_HANDLE", r"HANDLE_\1", first)),
    }


def check_slots(entries: list[dict]) -> None:
    owners: dict[int, str] = {}
    for entry in entries:
        slot, name = entry["slot"], entry["name"]
        require(3 <= slot <= LAST_SLOT, f"{name}: slot {slot} is outside the vector")
        require(slot not in owners, f"{name}: slot {slot} belongs to {owners.get(slot)}")
        owners[slot] = name


def api(table: dict) -> dict:
    entries = [dispatched(name, entry) for name, entry in table["dispatched"].items()]
    check_slots(entries)
    field = [f"dat_{e['name']}" for e in entries if not e["additional"]] + table["written_by_hand"]
    more = [f"dat_{e['name']}" for e in entries if e["additional"]]
    more += table["additional_written_by_hand"]
    for what, names in (("in_the_field", field), ("additional", more)):
        require(len(names) == table[what], f"{what} says {table[what]}, the table has {len(names)}")
    return {"entries": entries, "exported": sorted(field) + sorted(more)}


def render(table: dict, template: pathlib.Path) -> str:
    return rendering.render(template, **api(table))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--table", "--template", "--output"):
        parser.add_argument(option, type=pathlib.Path, required=True)
    options = parser.parse_args()
    try:
        table = tomllib.loads(options.table.read_text())
        options.output.write_text(render(table, options.template))
    except (TableError, KeyError, tomllib.TOMLDecodeError) as error:
        print(f"{options.table}: {error}", file=sys.stderr)
        return 1
    except jinja2.TemplateError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
