# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""dapl-port.lock, in which a port keeps its origin: the version of the contract, the generator,
the answers it was given, and the text of the skeleton.

The text is there because an upgrade needs it for its three-way merges, and the version of the kit
that generated it may not be installed any more. It is packed, so that neither compilers nor
searches find a second port beside the first.
"""

import base64
import binascii
import dataclasses
import hashlib
import json
import pathlib
import re
import textwrap
import zlib

import port_toml
from skeleton import LAYERS, Kit, Port, PortError, files_of

NAME = "dapl-port.lock"
FORMAT = 1
LARGEST = 1 << 20  # no text of a skeleton is larger

TEXT = """\
# SPDX-License-Identifier: {licence}
#
# What this port began as. `dapl-port upgrade` compares it with the skeleton of a newer kit. Keep it
# with the sources, and do not edit it.

format = {format}
contract = {contract}
generator = "{generator}" # of what wrote the skeleton

[answers]
{answers}

[skeleton]
files = \"\"\"
{files}
\"\"\"
"""


@dataclasses.dataclass(frozen=True)
class Lock:
    """What a port began as."""

    contract: int
    generator: str
    port: Port
    alone: bool  # a project of its own
    files: dict[str, str]  # text by name


def generator_of(kit: Kit) -> str:
    """A number that changes with what a skeleton is written by."""
    paths = [kit.root / "gen/skeleton.py", kit.table_path, kit.header_path,
             *kit.templates.rglob("*.j2")]
    told = hashlib.sha256()
    for path in sorted(paths):
        told.update(str(path.relative_to(kit.root)).encode() + path.read_bytes())
    return told.hexdigest()[:16]


def lock_of(kit: Kit, port: Port, alone: bool) -> Lock:
    """The lock of a port that this kit writes now."""
    return Lock(kit.header.version, generator_of(kit), port, alone, files_of(kit, port, alone))


def as_text(lock: Lock) -> str:
    answers = {**dataclasses.asdict(lock.port), "alone": lock.alone}
    packed = base64.b64encode(zlib.compress(json.dumps(lock.files).encode(), 9)).decode()
    return TEXT.format(
        licence=lock.port.licence, format=FORMAT, contract=lock.contract, generator=lock.generator,
        # What JSON has for such values is TOML, too.
        answers="\n".join(f"{name} = {json.dumps(value, ensure_ascii=False)}"
                          for name, value in answers.items()),
        files="\n".join(textwrap.wrap(packed, 100)))


def with_lock(kit: Kit, port: Port, alone: bool = False) -> dict[str, str]:
    """The files of a new port, and its lock."""
    lock = lock_of(kit, port, alone)
    return dict(sorted({**lock.files, NAME: as_text(lock)}.items()))


# -------------------------------------------------------------------------------------- reading


def unpacked(text: str) -> dict[str, str]:
    files = json.loads(zlib.decompress(base64.b64decode(text)))
    if not isinstance(files, dict) or not all(isinstance(each, str) for each in files.values()):
        raise ValueError
    return files


def read(path: pathlib.Path) -> Lock:
    file, told = port_toml.load(path)
    if told.get("format") != FORMAT:
        raise file.error(f"this has format {told.get('format')}, and this dapl-port reads format"
                         f" {FORMAT}: use that of a newer kit", "format")
    try:
        answers = dict(told["answers"])
        alone = answers.pop("alone")
        port = Port(**{**answers, "claims": tuple(answers["claims"])})
        return Lock(told["contract"], told["generator"], port, alone,
                    unpacked(told["skeleton"]["files"]))
    except (KeyError, TypeError, ValueError, AttributeError, binascii.Error, zlib.error) as error:
        raise port_toml.ProfileError("this is damaged: take it from your repository again",
                                     path) from error


# --------------------------------------------------------------- ports that are older than locks


def text_files(folder: pathlib.Path) -> dict[str, str]:
    """The text files of a folder, without its subfolders."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name != NAME and path.stat().st_size <= LARGEST:
            try:
                found[path.name] = path.read_bytes().decode()
            except UnicodeDecodeError:
                continue
    return found


def guessed(folder: pathlib.Path) -> Lock:
    """What a folder that dapl-port once wrote was made with, from its texts."""
    if not (folder / "port.toml").is_file():
        raise PortError(f"{folder} is no port as dapl-port writes it: it has no port.toml")
    if (folder / NAME).is_file():
        return read(folder / NAME)
    profile = port_toml.read(folder / "port.toml")
    files = text_files(folder)
    code = "\n".join(text for name, text in files.items() if name.endswith("pp"))

    def first(pattern: str, otherwise: str) -> str:
        found = re.search(pattern, code)
        return found[1] if found else otherwise

    style = next((style for style, layer in LAYERS.items()
                  if f"{profile.name}_{layer}.hpp" in files), "bare")
    port = Port(
        profile.name, first(r'vendor(?:_name)? = "(.*?)";', profile.name.capitalize()),
        first(r"SPDX-License-Identifier: (.*)", f"LicenseRef-{profile.name.capitalize()}"),
        tuple(name for name, on in profile.features.items() if on and style not in LAYERS),
        "own" if style == "bare" and "connection_service" in code and "tcp_cm" not in code else "tcp",
        "table" if style == "bare" and "key_table" in code else "device", style)
    alone = re.search(r"^project\(", files.get("meson.build", ""), re.M) is not None
    return Lock(profile.contract, "", port, alone, files)
