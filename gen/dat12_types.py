#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Write dat12_types.hpp: the types and constants of the DAT 1.2 headers in the namespace v1.

C cannot see both generations in one source, because their names are equal. C++ can: the
declarations of include/dat are repeated in a namespace, without calls, which libdat exports, and
without macros. Masks that are macros become constants without their DAT_ prefix. A type that is
equal in both generations is one type. DAT12_SLOTS(X) is X(ia_query) X(ia_close) ..., for the vector
from slot 3 on.
"""

import argparse
import pathlib
import re
import sys

HEADERS = ("dat_error.h", "dat.h", "udat.h", "dat_redirection.h", "udat_redirection.h")

COMMENT = re.compile(r"/\*.*?\*/", re.S)
MASK = re.compile(r"#define DAT_(\w+) +(UINT64_C\(0x[0-9A-F]+\))$", re.M)
DIRECTIVE = re.compile(r"^#(?:[^\n]*\\\n)*[^\n]*\n", re.M)
CALL = re.compile(r"^DAT_RETURN DAT_API dat_\w+\([^;]*\);\n", re.M)
SLOT = re.compile(r"^    DAT_\w+_FUNC +(\w+)_func;", re.M)
C_LINKAGE = re.compile(r'^extern "C" \{\n|^\}\n', re.M)

HEADER = """\
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Written by gen/dat12_types.py from include/dat; do not edit.
#pragma once

#include <dat2/dat_registry.h>
#include <dat2/udat.h>

namespace v1 {
"""


# typedef struct tag {...} NAME; or struct tag {...};
BLOCK = re.compile(r"^(?:typedef )?(?:struct|union|enum) (\w+) \{\n.*?^\}(?: (\w+))?;\n", re.M | re.S)
FORWARD = re.compile(r"^typedef struct (\w+) +(\w+);", re.M)
ENUMERATOR = re.compile(r"^    (DAT_\w+) *=", re.M)


def blocks_of(text: str) -> dict[str, str]:
    """Each structure, union and enumeration by its typedef's name, without spaces that differ."""
    names = dict(FORWARD.findall(text))
    return {m[2] or names.get(m[1], m[1]): " ".join(m[0].split()) for m in BLOCK.finditer(text)}


def same_in_both(one: dict[str, str], two: dict[str, str]) -> set[str]:
    """The types whose text is equal in both, and so is the text of all their parts."""
    same = {name for name, text in one.items() if two.get(name) == text}
    while True:
        changed = {name for name in same for other in set(one) - same
                   if re.search(rf"\b{other}\b", one[name].rpartition("}")[0])}
        if not changed:
            return same
        same -= changed


def without_comments(folder: pathlib.Path) -> list[str]:
    return [COMMENT.sub("", (folder / name).read_text()) for name in HEADERS]


def declarations(text: str, same: set[str], names: dict[str, str]) -> str:
    masks = "".join(f"inline constexpr DAT_UINT64 {m[1]} = {m[2]};\n" for m in MASK.finditer(text))
    for nothing in (DIRECTIVE, CALL, C_LINKAGE):
        text = nothing.sub("", text)

    def block(m: re.Match) -> str:
        name = m[2] or names.get(m[1], m[1])
        if name not in same:
            return m[0]
        used = [name] if m[2] else []
        if "enum " in m[0].partition("{")[0]:
            used += ENUMERATOR.findall(m[0])
        return "".join(f"using ::{each};\n" for each in used)

    def forward(m: re.Match) -> str:
        # Declared here first: otherwise the typedef would find the structure of DAT 2.0.
        return f"using ::{m[2]};" if m[2] in same else f"struct {m[1]};\n{m[0]}"

    text = FORWARD.sub(forward, BLOCK.sub(block, text))
    text = re.sub(r"[ \t]+$", "", text, flags=re.M)
    return re.sub(r"\n{3,}", "\n\n", text) + masks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--include", type=pathlib.Path, required=True, help="the folder of dat/ and dat2/")
    parser.add_argument("--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    one, two = (without_comments(options.include / folder) for folder in ("dat", "dat2"))
    same = same_in_both(blocks_of("".join(one)), blocks_of("".join(two)))
    names = dict(FORWARD.findall("".join(one)))
    parts = [declarations(text, same, names) for text in one]
    vector = "".join(one).partition("struct dat_provider {")[2]
    calls = [call for call in SLOT.findall(vector) if call != "ia_open"]
    slots = "#define DAT12_SLOTS(X) \\\n    " + " \\\n    ".join(f"X({call})" for call in calls)
    options.output.write_text(
        HEADER + "\n".join(parts) + "\n} // namespace v1\n\n" + slots + "\n")


if __name__ == "__main__":
    sys.exit(main())
