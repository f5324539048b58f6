#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Checks that no library has a local static variable that is initialized at its first use.

Code loaded into other people's processes is compiled without locks for that, so two threads would
initialize it at once. Exit status: 0 none has, 1 some have, 77 nm is missing.
"""

import shutil
import subprocess
import sys

SKIP = 77
GUARD = "guard variable for "


def guarded(library: str) -> list[str]:
    told = subprocess.run(["nm", "--demangle", library], capture_output=True, text=True, check=True)
    return [line.partition(GUARD)[2] for line in told.stdout.splitlines() if GUARD in line]


def main(libraries: list[str]) -> int:
    if not shutil.which("nm"):
        print("nm is missing; the Debian package is binutils")
        return SKIP
    found = [f"{library}: {name} is initialized when it is first used, by each thread that comes "
             "to it then: make it constinit, or a member" for library in libraries
             for name in guarded(library)]
    print("\n".join(found) or f"{len(libraries)} libraries, no such variable")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
