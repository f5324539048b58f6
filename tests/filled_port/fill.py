#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Make a port out of a new skeleton: all of its places are filled in, by the steps of steps.py."""

import argparse
import pathlib
import shutil
import sys

sys.dont_write_bytecode = True

import steps  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="FOLDER")
    options = parser.parse_args()

    files = steps.skeleton.files_of(steps.skeleton.Kit(steps.ROOT), steps.PORT)
    try:
        for step in steps.steps():
            step.apply(files)
    except steps.StepError as fault:
        sys.exit(str(fault))
    for name, text in files.items():
        if not name.startswith(("README", "meson")):
            (options.output / name).write_text(text)
    for name in steps.DEVICE_FILES:
        shutil.copy(steps.DEVICE / name, options.output)


if __name__ == "__main__":
    main()
