#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Print, a word a line, dapl-conformance's options for a port's adapter: promises and waivers.

Without an adapter: the names of the port's adapters.
"""

import argparse
import pathlib
import sys

import port_toml


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("profile", type=pathlib.Path, help="port.toml")
    parser.add_argument("adapter", nargs="?")
    options = parser.parse_args()
    try:
        profile = port_toml.read(options.profile)
        words = profile.suite_options(options.adapter) if options.adapter else profile.adapters
    except port_toml.ProfileError as error:
        sys.exit(str(error))
    for word in words:
        print(word)


if __name__ == "__main__":
    main()
