#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Write dapls_ib_check.hpp, which holds a port against the declarations of the contract."""

import argparse
import pathlib
import sys

import contract
import port_toml
import rendering

TEMPLATE = pathlib.Path(__file__).with_name("dapls_ib_check.hpp.in")


def check(header_path: pathlib.Path) -> str:
    header = contract.read_header(header_path)
    return rendering.render(TEMPLATE, types=[*header.types, *header.optional_types],
                            operations=header.operations.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--header", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    try:
        options.output.write_text(check(options.header))
    except (contract.ContractError, port_toml.ProfileError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
