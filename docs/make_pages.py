#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Make a manual page out of its Markdown, by pandoc.

With --dist, which `meson dist` says: make all pages of the archive beside their sources, so that who
builds from the archive needs no pandoc.
"""

import argparse
import os
import pathlib
import subprocess
import sys


def make(options: argparse.Namespace, source: pathlib.Path, page: pathlib.Path) -> None:
    if not options.pandoc:
        sys.exit("pandoc is missing, which makes the manual pages of the archive; "
                 "Debian has it in the package of that name")
    subprocess.run([options.pandoc, "--standalone", "--from=markdown", "--to=man",
                    "--metadata=hyphenate:false", f"--variable=footer:dapl {options.version}",
                    source, f"--output={page}"], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pandoc", required=True, help="the program; '' if it is missing")
    parser.add_argument("--version", required=True, help="the kit's")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--page", nargs=2, type=pathlib.Path, metavar=("SOURCE", "OUTPUT"))
    which.add_argument("--dist", action="store_true")
    options = parser.parse_args()
    if options.page:
        make(options, *options.page)
        return
    for source in sorted(pathlib.Path(os.environ["MESON_DIST_ROOT"]).glob("docs/man/*.md")):
        make(options, source, source.with_suffix(""))


if __name__ == "__main__":
    main()
