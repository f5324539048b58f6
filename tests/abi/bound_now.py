#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Checks that the loader binds all calls of a library when it loads it.

Otherwise it binds each at the first call, on the stack of the thread that makes it, which may be a
small one. Exit status: 0 all are bound, 1 some are not, 77 readelf is missing.
"""

import re
import shutil
import subprocess
import sys

SKIP = 77


def is_bound_now(library: str) -> bool:
    told = subprocess.run(["readelf", "--dynamic", "--wide", library], capture_output=True,
                          text=True, check=True)
    return re.search(r"\((BIND_NOW|FLAGS)\).*BIND_NOW|\(FLAGS_1\).*\bNOW\b", told.stdout) is not None


def main(libraries: list[str]) -> int:
    if not shutil.which("readelf"):
        print("readelf is missing; the Debian package is binutils")
        return SKIP
    lazy = [f"{library} binds its calls late: link it with lib_link_args, which have -z now"
            for library in libraries if not is_bound_now(library)]
    print("\n".join(lazy) or f"{len(libraries)} libraries, all bound when they are loaded")
    return 1 if lazy else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
