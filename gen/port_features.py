#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Write the features aggregate of a port, as C++, from its port.toml.

What port.toml says is checked on the way: the build ends here where it is not so.
"""

import argparse
import pathlib
import sys

import port_toml


def claimed_features(options: argparse.Namespace) -> list[str]:
    known = port_toml.known_features(options.contract)
    for name in options.disable:
        if name != "all" and name not in known:
            raise port_toml.ProfileError(f"cannot disable '{name}': there is no such feature")
    profile = port_toml.read(options.profile)
    port_toml.check(profile.feature_faults(known))
    port_toml.check(profile.contract_faults(port_toml.contract_version(options.contract)))
    if options.port is not None:
        port_toml.check(profile.name_faults(options.port))
    off = (set(known) if "all" in options.disable
           else port_toml.dependents(options.contract, set(options.disable)))
    return [name for name in known if profile.features.get(name, False) and name not in off]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contract", type=pathlib.Path, required=True, help="dapls_ib.hpp")
    parser.add_argument("--profile", type=pathlib.Path, required=True, help="port.toml")
    parser.add_argument("--port", help="the name that the port is built as, if it shall be checked")
    parser.add_argument("--disable", action="append", default=[],
                        help="feature, and with it all features that need it; or 'all'")
    parser.add_argument("--output", type=pathlib.Path, required=True)
    options = parser.parse_args()

    try:
        on = claimed_features(options)
    except port_toml.ProfileError as error:
        sys.exit(str(error))
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
    text = "\n".join(lines)
    # Everything is compiled again when this changes: not when port.toml says something else anew.
    if not options.output.exists() or options.output.read_text() != text:
        options.output.write_text(text)


if __name__ == "__main__":
    main()
