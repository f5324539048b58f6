# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs for Windows, run by the wrapper that Meson names to its tests."""

import os
import pathlib
import subprocess

PATIENCE = 120  # seconds; a busy machine


def environment(dat_conf: pathlib.Path, *folders: pathlib.Path) -> dict[str, str]:
    """In which a program finds its libraries in the folders, and our adapters."""
    path = ";".join("Z:" + str(folder.resolve()).replace("/", "\\") for folder in folders)
    return {**os.environ, "WINEPATH": path, "DAT_OVERRIDE": str(dat_conf)}


def command(program: pathlib.Path, *arguments: str) -> list[str]:
    return [*os.environ.get("MESON_EXE_WRAPPER", "").split(), str(program), *arguments]


def run(words: list[str], env: dict[str, str],
        seconds: float = PATIENCE) -> subprocess.CompletedProcess:
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=seconds,
                          check=False)


class Background:
    """A program that runs until it is waited for; killed if it is not."""

    def __init__(self, words: list[str], env: dict[str, str]):
        self._process = subprocess.Popen(words, env=env, text=True, stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT)
        self.said: list[str] = []

    def __enter__(self) -> "Background":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def read_until(self, words: str) -> bool:
        """Whether a line with these words comes before it ends."""
        for line in self._process.stdout:
            self.said.append(line.rstrip())
            if words in line:
                return True
        return False

    def wait(self) -> int:
        more, _ = self._process.communicate(timeout=PATIENCE)
        self.said += more.splitlines()
        return self._process.returncode
