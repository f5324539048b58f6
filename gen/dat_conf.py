#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Write a dat.conf that names the adapters of the given ports, both thread-safety lines each."""

import argparse
import pathlib
import sys

import port_toml


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def lines_of(profile: pathlib.Path, library: str, suffix: str) -> list[str]:
    return [
        f"{name}{suffix} u2.0 {safety} default {library} dapl.2.0 {quoted(params)} \"\""
        for name, params in port_toml.read(profile).adapters.items()
        for safety in ("nonthreadsafe", "threadsafe")
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
    options = parser.parse_args()
    lines = ["# Made by gen/dat_conf.py from the port.toml of each port.",
             "# name api thread-safety default library version ia_params platform_params"]
    try:
        for profile, library, suffix in options.port:
            lines += lines_of(pathlib.Path(profile), library, suffix.strip())
    except port_toml.ProfileError as error:
        sys.exit(str(error))
    options.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
