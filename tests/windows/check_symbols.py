#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Checks the exports, the imports and the version of the libraries for Windows.

Each exports the names in its version script, as on Linux, and nothing else. None needs a library
that is not part of Windows, but a provider needs libdat2, which is the first to be named.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

OF_WINDOWS = re.compile(r"(kernel32|msvcrt|ws2_32|bcrypt|iphlpapi|api-ms-win-core-[a-z0-9-]+)\.dll", re.I)


class Library:
    def __init__(self, objdump: str, path: Path):
        text = subprocess.run([objdump, "-p", path], capture_output=True, text=True,
                              check=True).stdout
        self.path = path
        self.needs = set(re.findall(r"DLL Name: (\S+)", text))
        table = text.partition("[Ordinal/Name Pointer] Table")[2].partition("\n\n")[0]
        # Binutils 2.44 has the ordinal and the hint before the name.
        self.exports = set(re.findall(r"^\s*\[ *\d+\] +(?:\+base\[ *\d+\] +[0-9a-f]+ +)?(\S+)$", table,
                                      re.M))

    def says(self, name: str, value: str) -> bool:
        """Whether its version resource has this."""
        # Each text begins at a multiple of four bytes.
        entry = re.escape(f"{name}\0".encode("utf-16-le")) + b"(\0\0)?" + re.escape(
            f"{value}\0".encode("utf-16-le"))
        return re.search(entry, self.path.read_bytes()) is not None

    def differences(self, exports: set[str], needs: set[str]) -> list[str]:
        found = [f"does not export {name}" for name in sorted(exports - self.exports)]
        found += [f"exports {name}" for name in sorted(self.exports - exports)]
        found += [f"does not need {name}" for name in sorted(needs - self.needs)]
        found += [f"needs {name}" for name in sorted(self.needs - needs)
                  if not OF_WINDOWS.fullmatch(name)]
        return [f"{self.path.name} {what}" for what in found]


def named_in(version_script: Path) -> set[str]:
    public = version_script.read_text().partition("global:")[2].partition("local:")[0]
    return set(re.findall(r"(\w+);", public))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objdump", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--library", nargs=2, type=Path, action="append", required=True,
                        metavar=("DLL", "VERSION-SCRIPT"))
    options = parser.parse_args()

    libdat2 = options.library[0][0].name
    found = []
    for path, version_script in options.library:
        library = Library(options.objdump, path)
        needs = {libdat2} if path.name != libdat2 else set()
        found += library.differences(named_in(version_script), needs)
        found += [f"{path.name} has no {name} {value} in its version resource"
                  for name, value in (("ProductVersion", options.version),
                                      ("OriginalFilename", path.name))
                  if not library.says(name, value)]
    for difference in found:
        print(difference)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
