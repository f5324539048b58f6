#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Install dat.conf, unless the present file has been edited: meson install runs this.

The file that the build made is installed as a sample, too. By the sample of the installation
before, a dat.conf is known that nobody has touched since; any other is kept, and the build's file
is put beside it as dat.conf.new.
"""

import os
import pathlib
import sys


def installed(path: str) -> pathlib.Path:
    """The path of an installed file; below DESTDIR, for a package."""
    destdir = os.environ.get("DESTDIR")
    return pathlib.Path(destdir, path.lstrip("/")) if destdir else pathlib.Path(path)


def text_of(path: pathlib.Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def write(path: pathlib.Path, text: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    path.write_bytes(text)
    if is_new:
        path.chmod(0o644)


def main(built: str, registry_file: str, sample_file: str) -> int:
    new = pathlib.Path(built).read_bytes()
    registry, sample = installed(registry_file), installed(sample_file)
    there, before = text_of(registry), text_of(sample)
    try:
        write(sample, new)
        if there is None or there == before:
            write(registry, new)
        elif there != new:
            beside = registry.with_name(registry.name + ".new")
            write(beside, new)
            # Meson 1.0 does not show this.
            print(f"{registry} has been edited and is kept; the lines of this build are in {beside}")
    except OSError as error:
        sys.exit(f"dat.conf cannot be installed: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
