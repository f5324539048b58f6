#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Write docs/contract.md, the reference of the transport contract, from header and table."""

import argparse
import pathlib
import sys

import contract
import rendering

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEADER = ROOT / "contract/dapls_ib.hpp"
TABLE = ROOT / "gen/dapls_ib.toml"
OUTPUT = ROOT / "docs/contract.md"


def wrapped(text: str, width: int = 100) -> str:
    """A declaration, continued below its bracket."""
    if len(text) <= width:
        return text
    opening = text.index("(") + 1
    lines = [text[:opening]]
    for part in text[opening:].split(", "):
        glue = "" if lines[-1].endswith("(") or lines[-1].isspace() else " "
        if len(lines[-1] + glue + part) + 1 > width:
            lines.append(" " * opening + part + ",")
        else:
            lines[-1] += glue + part + ","
    return "\n".join(lines).rstrip(",")


def as_declared(declared: contract.Declared) -> str:
    return wrapped(f"{declared.returns} {declared.name}({', '.join(declared.parameters)})")


def words(header: contract.Header) -> list[tuple[str, str]]:
    """The thread words and what the header says about them."""
    found: list[tuple[str, str]] = []
    for line in header.words:
        word, _, text = line.strip().partition(" ")
        if line.startswith("  ") and not line.startswith("   "):
            found.append((word, text.strip()))
        elif found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
    return found


def reference(header_path: pathlib.Path, table_path: pathlib.Path) -> str:
    header = contract.read_header(header_path)
    table = contract.read_table(table_path)
    operations = contract.operations(header, table)
    return rendering.render(
        pathlib.Path(__file__).with_name("contract.md.in"),
        header=header, groups=table["groups"], operations=operations,
        thread_words=contract.THREAD_WORDS, words=words(header), as_declared=as_declared,
        upcalls=[{"name": name, **row, "declared": header.upcalls[name]}
                 for name, row in table["upcalls"].items()],
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--header", type=pathlib.Path, default=HEADER)
    parser.add_argument("--table", type=pathlib.Path, default=TABLE)
    parser.add_argument("--output", type=pathlib.Path, default=OUTPUT)
    parser.add_argument("--check", action="store_true", help="only say whether it is up to date")
    options = parser.parse_args()
    try:
        text = reference(options.header, options.table)
    except contract.ContractError as error:
        print(error, file=sys.stderr)
        return 1
    if not options.check:
        options.output.write_text(text)
    elif not options.output.exists() or options.output.read_text() != text:
        print(f"{options.output} is out of date; run: python3 gen/contract_reference.py",
              file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
