#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Makes a folder with the libraries that consist of headers only, as this machine has them.

Debian has them for Linux, and they serve for Windows as well; the folder that they lie in does not.
"""

import pathlib
import sys

LIBRARIES = ("CLI", "doctest", "nlohmann")
INSTALLED = pathlib.Path("/usr/include")


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    for name in LIBRARIES:
        link = folder / name
        if (INSTALLED / name).is_dir() and not link.is_symlink():
            link.symlink_to(INSTALLED / name)
        if link.exists():
            print(name)


if __name__ == "__main__":
    main()
