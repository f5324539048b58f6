#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Write a dat.conf that names the adapters of the given ports, both thread-safety lines each.

With --dat12, programs of DAT 1.2 find each adapter under its DAT 2.0 name.
"""

import argparse
import pathlib
import sys

import port_toml


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


SAFETIES = ("nonthreadsafe", "threadsafe")


def lines_of(profile: pathlib.Path, library: str, suffix: str) -> list[str]:
    return [
        f"{name}{suffix} u2.0 {safety} default {library} dapl.2.0 {quoted(params)} \"\""
        for name, params in port_toml.read(profile).adapters.items()
        for safety in SAFETIES
    ]


def dat12_lines_of(profile: pathlib.Path, dat12: str, suffix: str) -> list[str]:
    """Lines without parameters: libdat takes the DAT 2.0 adapter of that name."""
    return [
        f"{name}{suffix} u1.2 {safety} default {dat12} dapl.1.2 \"\" \"\""
        for name in port_toml.read(profile).adapters
        for safety in SAFETIES
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument(
        "--port",
        action="append",
        nargs=3,
        default=[],
        metavar=("PROFILE", "LIBRARY", "SUFFIX"),
        help="port.toml, its library, and what to append to its adapter names ('' for nothing)",
    )
    parser.add_argument("--dat12", metavar="LIBRARY", help="where libdat is, for DAT 1.2")
    options = parser.parse_args()
    lines = ["# Made by gen/dat_conf.py from the port.toml of each port.",
             "# name api thread-safety default library version ia_params platform_params"]
    try:
        for profile, library, suffix in options.port:
            lines += lines_of(pathlib.Path(profile), library, suffix.strip())
        for profile, _, suffix in options.port if options.dat12 else []:
            lines += dat12_lines_of(pathlib.Path(profile), options.dat12, suffix.strip())
    except port_toml.ProfileError as error:
        sys.exit(str(error))
    options.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
