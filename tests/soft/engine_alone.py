#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The engine includes itself, osd and the C++ library; the system's headers in one file per system,
those of libcrypto in one file. tests/layers holds the directions in which its rooms include one
another, and that no units do so in circles."""

import pathlib
import re
import sys

FOR_HEADERS = ("net_", "seal_library.cpp")
INCLUDE = re.compile(r'^#include ("([^"]+)"|<([^>]+)>)', re.M)


def wrong(path: pathlib.Path, own: set[str]) -> list[str]:
    found = []
    for _, quoted, system in INCLUDE.findall(path.read_text()):
        if quoted and (quoted in own or re.fullmatch(r"(osd|native)_\w+\.hpp", quoted)):
            continue
        of_the_system = system and not re.fullmatch(r"[a-z_]+", system)
        if system and (not of_the_system or path.name.startswith(FOR_HEADERS)):
            continue
        found.append(f"{path.name} includes {quoted or system}")
    if re.search(r"\b(DAT_|dapl)", path.read_text()):
        found.append(f"{path.name} names DAT or DAPL")
    return found


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    files = sorted(folder.glob("*/*.?pp"))
    own = {path.name for path in files} | {f"{path.parent.name}/{path.name}" for path in files}
    found = [text for path in files for text in wrong(path, own)]
    if not files or found:
        sys.exit("\n".join(found) or "no engine there")


if __name__ == "__main__":
    main()
