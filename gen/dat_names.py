#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Write dat_names.hpp: functions from a number of the DAT API to its name.

The installed kit has this script too, and needs nothing for it but Python itself.
"""

import argparse
import pathlib
import sys
import tomllib

KEYS = {"type", "value", "empty", "unknown", "names"}

HEADER = """\
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Written by gen/dat_names.py from gen/dat_names.toml; do not edit.
#pragma once

#include <dat2/udat.h>
#include <dat2/dat_ib_extensions.h>

namespace dat {
"""


class TableError(Exception):
    pass


def case(constant: str, text: str) -> str:
    return f'    case static_cast<DAT_UINT32>({constant}):\n        return "{text}";\n'


def function(name: str, section: dict) -> str:
    if unknown_keys := set(section) - KEYS:
        raise TableError(f"{name}: unknown key {sorted(unknown_keys)[0]}")
    value = f"{section['value']}(value)" if "value" in section else "static_cast<DAT_UINT32>(value)"
    cases = [case(section["empty"], "")] if "empty" in section else []
    cases += [case(constant, constant) for constant in section["names"]]
    unknown = f'"{section["unknown"]}"' if "unknown" in section else "nullptr"
    return (f"\nconstexpr const char *{name}({section['type']} value)\n{{\n"
            f"    switch ({value}) {{\n{''.join(cases)}"
            f"    default:\n        return {unknown};\n    }}\n}}\n")


def header(table: dict) -> str:
    return HEADER + "".join(function(*each) for each in table.items()) + "\n} // namespace dat\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--table", "--output"):
        parser.add_argument(option, type=pathlib.Path, required=True)
    options = parser.parse_args()
    try:
        options.output.write_text(header(tomllib.loads(options.table.read_text())))
    except KeyError as error:
        print(f"{options.table}: a section lacks {error}", file=sys.stderr)
        return 1
    except (TableError, tomllib.TOMLDecodeError) as error:
        print(f"{options.table}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
