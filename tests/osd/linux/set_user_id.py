#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Run the cases of a doctest program that are about set-user-ID programs, in a set-user-ID copy.

The cases are skipped otherwise. SET_USER_ID_FOLDER has files of several owners and modes. Exit
status: the program's; 77 for another user than root, who cannot make such a program.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIP = 77
OWNER, ANOTHER = 12345, 54321


def make(path: pathlib.Path, owner: int, mode: int) -> None:
    path.write_text(path.name)
    os.chown(path, owner, owner)
    path.chmod(mode)


def main(program: str) -> int:
    if os.geteuid() != 0:
        print("skipped: only root can give a program to another user")
        return SKIP
    with tempfile.TemporaryDirectory(prefix="set-user-id-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        make(folder / "root", 0, 0o644)
        make(folder / "owner", OWNER, 0o600)
        make(folder / "another", ANOTHER, 0o644)
        make(folder / "group", 0, 0o664)
        make(folder / "others", 0, 0o646)
        copy = pathlib.Path(shutil.copy(program, folder / "program"))
        os.chown(copy, OWNER, OWNER)
        copy.chmod(0o4755)
        return subprocess.run([copy, "--no-skip", "--test-case=in a set-user-ID program*"], cwd="/",
                              env={**os.environ, "SET_USER_ID_FOLDER": name}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
