#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Write a part of a port that wraps another one, or of what wraps DAT, from a template.

The templates get the operations and upcalls of the transport contract, and the calls of DAT.
"""

import argparse
import dataclasses
import pathlib
import sys
import tomllib

import contract
import dat_entry_points
import jinja2
import rendering

# The object that an operation brings to life or ends, if its name does not say so.
MAKES = {"open_hca": "hca", "mr_register": "mr", "setup_conn_listener": "listener",
         "exchange_begin": "exchange", "exchange_accept": "exchange"}
ENDS = {"close_hca": "hca", "mr_deregister": "mr", "remove_conn_listener": "listener"}


@dataclasses.dataclass(frozen=True)
class Wrapped:
    """An operation or upcall, as templates see it."""

    name: str  # full name
    short: str  # name without its prefix
    returns: str
    types: tuple[str, ...]
    makes: str = ""  # type of the object that it brings to life
    ends: str = ""
    of: contract.Operation | None = None  # what header and table say of it; None for an upcall

    @property
    def parameters(self) -> str:
        return ", ".join(f"{kind}{'' if kind[-1] in '&*' else ' '}a{place}"
                         for place, kind in enumerate(self.types))

    @property
    def arguments(self) -> str:
        return ", ".join(f"a{place}" for place in range(len(self.types)))

    def place_of(self, kind: str) -> int:
        return self.types.index(f"{kind} &")


def wrapped(declared: contract.Declared, of: contract.Operation | None = None) -> Wrapped:
    short = contract.short_name(declared.name)
    kind, _, verb = short.partition("_")
    makes = MAKES.get(short, kind if verb == "alloc" else "")
    ends = ENDS.get(short, kind if verb == "free" else "")
    return Wrapped(declared.name, short, declared.returns, declared.types, makes, ends, of)


# Kinds of events, as plans name them.
EVENTS = ("dto_event", "rmr_event", "cr_event", "connection_event", "async_event", "software_event",
          "extension_event")
NOT_WRAPPED = "dats_get_ia_handle"  # for providers, which have no other library


def call_names(api: dict) -> list[str]:
    return sorted(name.removeprefix("dat_") for name in api["exported"] if name != NOT_WRAPPED)


def render(header_path: pathlib.Path, table_path: pathlib.Path, api_path: pathlib.Path,
           template: pathlib.Path) -> str:
    header = contract.read_header(header_path)
    api = dat_entry_points.api(tomllib.loads(api_path.read_text()))
    operations = contract.operations(header, contract.read_table(table_path))
    return rendering.render(
        template,
        operations=[wrapped(each.declared, each) for each in operations],
        upcalls=[wrapped(each) for each in header.upcalls.values()],
        traits=[line.split(" = ")[0].split()[-1] for line in header.traits if " = " in line],
        types=[*header.types, *header.optional_types],
        calls=call_names(api),
        dispatched=api["entries"],
        events=EVENTS,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--header", "--table", "--api", "--template", "--output"):
        parser.add_argument(option, type=pathlib.Path, required=True)
    options = parser.parse_args()
    try:
        options.output.write_text(render(options.header, options.table, options.api,
                                         options.template))
    except (contract.ContractError, dat_entry_points.TableError, jinja2.TemplateError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
