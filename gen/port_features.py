#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Write the features of a port, as C++, from its port.toml.

What port.toml says is checked on the way: the build ends here where it is not so.
"""

import argparse
import pathlib
import sys

import port_toml


def claimed_features(options: argparse.Namespace) -> tuple[list[str], dict[str, bool]]:
    """The features of the contract that are on, and the port's own."""
    known = port_toml.known_features(options.contract)
    profile = port_toml.read(options.profile)
    switches = {"all", *known, *profile.own_features}.union(
        *(port_toml.read(path).own_features for path in options.beside))
    for name in options.disable:
        if name not in switches:
            raise port_toml.ProfileError(f"cannot disable '{name}': there is no such feature")
    port_toml.check(profile.contract_faults(port_toml.contract_version(options.contract)))
    port_toml.check(profile.feature_faults(known))
    if options.port is not None:
        port_toml.check(profile.name_faults(options.port))
    off = (set(known) if "all" in options.disable
           else port_toml.dependents(options.contract, set(options.disable)))
    return ([name for name in known if profile.features.get(name, False) and name not in off],
            {name: on and not {"all", name} & set(options.disable)
             for name, on in profile.own_features.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contract", type=pathlib.Path, required=True, help="dapls_ib.hpp")
    parser.add_argument("--profile", type=pathlib.Path, required=True, help="port.toml")
    parser.add_argument("--port", help="the name that the port is built as, if it shall be checked")
    parser.add_argument("--disable", action="append", default=[],
                        help="feature, and with it all features that need it; or 'all'")
    parser.add_argument("--beside", action="append", type=pathlib.Path, default=[],
                        help="port.toml of another port of the build, whose own features may be"
                             " named by --disable too")
    parser.add_argument("--output", type=pathlib.Path, required=True)
    options = parser.parse_args()

    try:
        on, own = claimed_features(options)
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
        "/// The features that concern the port alone.",
        "struct own_feature_set {",
        *[f"    bool {name} = {'true' if is_on else 'false'};" for name, is_on in own.items()],
        "};",
        "inline constexpr own_feature_set own_features{};",
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
