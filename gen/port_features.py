#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Write the features aggregate of a port, as C++, from its port.toml.

The names that exist are those of `struct features` in the contract.
"""

import argparse
import pathlib
import re
import sys
import tomllib


def known_features(contract: pathlib.Path) -> list[str]:
    body = re.search(r"struct features \{(.*?)\n\};", contract.read_text(), re.S)
    if body is None:
        sys.exit(f"{contract}: struct features not found")
    return re.findall(r"bool (\w+) = false;", body.group(1))


def claimed_features(profile: pathlib.Path, known: list[str]) -> list[str]:
    with profile.open("rb") as stream:
        claims = tomllib.load(stream).get("features", {})
    for name, claim in claims.items():
        if name not in known:
            sys.exit(f"{profile}: unknown feature '{name}'; there are: {', '.join(known)}")
        if not isinstance(claim, bool):
            sys.exit(f"{profile}: feature '{name}' must be true or false")
    return [name for name in known if claims.get(name, False)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contract", type=pathlib.Path, required=True, help="dapls_ib.hpp")
    parser.add_argument("--profile", type=pathlib.Path, required=True, help="port.toml")
    parser.add_argument("--disable", action="append", default=[], help="feature, or 'all'")
    parser.add_argument("--output", type=pathlib.Path, required=True)
    options = parser.parse_args()

    known = known_features(options.contract)
    for name in options.disable:
        if name != "all" and name not in known:
            sys.exit(f"cannot disable '{name}': there is no such feature")
    off = known if "all" in options.disable else options.disable
    on = [name for name in claimed_features(options.profile, known) if name not in off]
    lines = [
        f"// Made by gen/port_features.py from {options.profile.name}; do not edit.",
        "#pragma once",
        "",
        '#include "dapls_ib.hpp"',
        "",
        "namespace dapl::DAPL_TRANSPORT {",
        "",
        "inline constexpr features port_features{",
        *[f"    .{name} = true," for name in on],
        "};",
        "",
        "} // namespace dapl::DAPL_TRANSPORT",
        "",
    ]
    options.output.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
