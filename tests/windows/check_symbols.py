#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Checks the exports and imports of the libraries for Windows.

Each exports the names in its version script and nothing else, although it is OSD_EXPORT that
decides. Neither needs a library that is not part of Windows, but a provider needs libdat2.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

OF_WINDOWS = re.compile(r"(kernel32|msvcrt|ws2_32|api-ms-win-core-[a-z0-9-]+)\.dll", re.I)


class Library:
    def __init__(self, objdump: str, path: Path):
        text = subprocess.run([objdump, "-p", path], capture_output=True, text=True,
                              check=True).stdout
        self.path = path
        self.needs = set(re.findall(r"DLL Name: (\S+)", text))
        table = text.partition("[Ordinal/Name Pointer] Table")[2].partition("\n\n")[0]
        self.exports = set(re.findall(r"^\s*\[ *\d+\] (?:\+base\S* +\S+ +)?(\S+)$", table, re.M))

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
    for name in ("--libdat2", "--libdat2-map", "--provider", "--provider-map"):
        parser.add_argument(name, type=Path, required=True)
    options = parser.parse_args()

    libdat2 = Library(options.objdump, options.libdat2)
    provider = Library(options.objdump, options.provider)
    found = libdat2.differences(named_in(options.libdat2_map), set())
    found += provider.differences(named_in(options.provider_map), {options.libdat2.name})
    for difference in found:
        print(difference)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
