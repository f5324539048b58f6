# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Throw-away copies of the source tree, and programs run in them."""

import contextlib
import functools
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import types
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
MESON = "/usr/bin/meson" if os.path.exists("/usr/bin/meson") else "meson"
LARGEST = 1 << 20  # no source is larger; a larger file was left there by another program

# What a port is made from, without anything to build.
KIT_PARTS = ("contract", "gen", "transports")


def is_no_source(folder: str, names: list[str]) -> set[str]:
    """Build trees, caches, large files: names that copytree shall leave out."""
    where = pathlib.Path(folder)
    return {name for name in names
            if name.startswith(".") or name == "__pycache__"
            or (name.startswith("build") and (where / name).is_dir())
            or (where / name / "meson-private").exists()
            or ((where / name).is_file() and (where / name).stat().st_size > LARGEST)}


def copy_tree(to: pathlib.Path, parts: tuple[str, ...] | None = None) -> pathlib.Path:
    """Copy the source tree, or some of its folders."""
    if parts is None:
        return pathlib.Path(shutil.copytree(ROOT, to, ignore=is_no_source))
    for part in parts:
        shutil.copytree(ROOT / part, to / part, ignore=is_no_source)
    return to


def contents(tree: pathlib.Path) -> dict[str, str]:
    """Every file of a tree, by path."""
    return {str(path.relative_to(tree)): path.read_text(errors="replace")
            for path in sorted(tree.rglob("*"))
            if path.is_file() and "__pycache__" not in path.parts}


def run(*command: object, cwd: pathlib.Path | None = None,
        **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], cwd=cwd, text=True, check=False,
                          stdin=subprocess.DEVNULL, capture_output=True,
                          env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment})


@functools.cache
def program(name: str) -> types.ModuleType:
    """A program of gen/, as a module."""
    if str(ROOT / "gen") not in sys.path:
        sys.path.insert(0, str(ROOT / "gen"))
    path = str(ROOT / "gen" / name)
    loader = importlib.machinery.SourceFileLoader(re.sub(r"\W", "_", name), path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def run_here(name: str, *arguments: object, cwd: pathlib.Path,
             **environment: str) -> subprocess.CompletedProcess[str]:
    """A program of gen/ in this process: an interpreter of its own would take a fifth of a second
    to read it."""
    words = [name, *map(str, arguments)]
    told, said = io.StringIO(), io.StringIO()
    with (contextlib.chdir(cwd), contextlib.redirect_stdout(told),
          contextlib.redirect_stderr(said), unittest.mock.patch.dict(os.environ, environment),
          unittest.mock.patch("sys.argv", words)):
        try:
            code = program(name).main()
        except SystemExit as end:
            code = end.code
            if isinstance(code, str):
                print(code, file=said)
                code = 1
    return subprocess.CompletedProcess(words, code or 0, told.getvalue(), said.getvalue())


def dapl_port(kit: pathlib.Path, *arguments: object,
              **environment: str) -> subprocess.CompletedProcess[str]:
    """dapl-port, on this tree."""
    return run_here("dapl-port", *arguments, cwd=kit, **environment)
