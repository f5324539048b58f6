# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The way from a new skeleton to a port, in ten steps that fill in a group of places each.

It uses the device of tests/memory_port. The new texts in the files of `steps` are an author's work.
A file says which places it fills in, by name, and edits lines of the port:

    places = ["dapls_ib_pd_alloc", "dapls_ib_pd_free"]

    [[edit]]
    file = "memory.cpp"
    old = '''what the skeleton has there, or an earlier step has written'''
    new = '''what the author makes of it'''
"""

import collections
import dataclasses
import pathlib
import re
import shutil
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "gen"))

import skeleton  # noqa: E402

FOLDER = pathlib.Path(__file__).with_name("steps")
DEVICE = ROOT / "tests/memory_port"
DEVICE_FILES = ("device.hpp", "device.cpp")
NAME = "filled"
CLAIMS = ("immediate_data", "atomics", "srq", "memory_windows")
PORT = skeleton.Port(NAME, "memory", "GPL-2.0-only OR BSD-2-Clause", CLAIMS, keys="table")


class StepError(Exception):
    """A step does not fit the skeleton any more; the message says which and where."""


@dataclasses.dataclass(frozen=True)
class Edit:
    file: str
    old: str
    new: str


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    path: pathlib.Path
    places: list[str]
    edits: list[Edit]

    @property
    def lines(self) -> int:
        """How many the author writes."""
        return sum((lines_of(each.new) - lines_of(each.old)).total() for each in self.edits)

    def apply(self, files: dict[str, str]) -> None:
        """Change the texts of a port, by name."""
        for each in self.edits:
            times = files.get(each.file, "").count(each.old)
            if times != 1:
                raise StepError(f"{self.path}: the port's {each.file} has {times} times what is to"
                                f" be edited:\n{each.old}")
            files[each.file] = files[each.file].replace(each.old, each.new)
        for name in self.places:
            self.finish(files, name)

    def finish(self, files: dict[str, str], name: str) -> None:
        """What an author does when a place is done: the mark goes."""
        mark = rf"{re.escape(skeleton.MARK)} \d+ {name}:"
        marked = [file for file, text in files.items() if re.search(mark, text)]
        if len(marked) != 1:
            raise StepError(f"{self.path}: the port has no place {name}, or several")
        files[marked[0]] = re.sub(mark, f"{name}:", files[marked[0]])


def lines_of(text: str) -> collections.Counter[str]:
    return collections.Counter(line for line in text.splitlines() if line.strip())


def read(path: pathlib.Path) -> Step:
    told = tomllib.loads(path.read_text())
    name = path.stem.partition("-")[2]
    return Step(name, path, told["places"], [Edit(**each) for each in told["edit"]])


def steps() -> list[Step]:
    return [read(path) for path in sorted(FOLDER.glob("*.toml"))]


def texts_of(folder: pathlib.Path) -> dict[str, str]:
    """The files of a port that steps may change."""
    return {path.name: path.read_text() for path in sorted(folder.iterdir())
            if path.suffix in (".hpp", ".cpp", ".build")}


def apply_to(folder: pathlib.Path, step: Step) -> None:
    """Do a step in the folder of a port. The first one brings the device's library."""
    files = texts_of(folder)
    step.apply(files)
    for name, text in files.items():
        (folder / name).write_text(text)
    for name in DEVICE_FILES:
        if not (folder / name).exists():
            shutil.copy(DEVICE / name, folder)
