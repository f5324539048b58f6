#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Write a header with the scorecard's page: page.html with its style sheet and script inlined.

What stands between two @ is filled in by the program, except for @style@ and @script@.
"""

import argparse
import pathlib

LICENCE = "SPDX-License-Identifier:"


def text_of(path: pathlib.Path) -> str:
    """The file without its licence line, which is of the source and not of each scorecard."""
    lines = path.read_text().splitlines(keepends=True)
    return "".join(line for line in lines if LICENCE not in line)


def header(page: str) -> str:
    return (f"// {LICENCE} GPL-2.0-only OR BSD-2-Clause\n"
            "// Written by conformance/reports/embed.py; do not edit.\n"
            "#pragma once\n\n"
            "namespace conformance {\n\n"
            f'inline constexpr const char page_template[] = R"page({page})page";\n\n'
            "} // namespace conformance\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--page", "--style", "--script", "--output"):
        parser.add_argument(option, type=pathlib.Path, required=True)
    options = parser.parse_args()
    page = text_of(options.page)
    page = page.replace("@style@", text_of(options.style))
    page = page.replace("@script@", text_of(options.script))
    options.output.write_text(header(page))


if __name__ == "__main__":
    main()
