# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""port.toml, in which a port says what it is: read and checked here for all that use it.

What is wrong with one is said in a line: the file, the line in it, and the cause.
"""

import dataclasses
import pathlib
import re
import tomllib

TABLES = ("port", "features", "adapters")
PORT_KEYS = {"name": str, "contract": int, "description": str}
TYPES = {str: "text in quotes", int: "a number", bool: "true or false", dict: "a table"}
# A field of dat.conf: it begins no comment and needs no quotes. The build appends -plain.
ADAPTER = re.compile(r'[^\s"#][^\s"]{0,248}')


class ProfileError(Exception):
    """What is wrong, in one line."""


@dataclasses.dataclass(frozen=True)
class File:
    """The text of a port.toml."""

    path: pathlib.Path
    lines: list[str]

    def error(self, cause: str, table: str, key: str = "") -> ProfileError:
        line = line_of(self.lines, table, key)
        return ProfileError(f"{self.path}:{line}: {cause}" if line else f"{self.path}: {cause}")

    def check_type(self, value: object, kind: type, what: str, table: str, key: str = "") -> None:
        if type(value) is not kind:  # bool is a kind of int
            raise self.error(f"{what} shall be {TYPES[kind]}", table, key)


@dataclasses.dataclass(frozen=True)
class Profile:
    """What a port says of itself."""

    file: File
    name: str
    contract: int
    features: dict[str, bool]
    adapters: dict[str, str]  # name and parameters

    def check_name(self, built_as: str) -> None:
        """Folder, namespace and library have one name, and this is it."""
        if self.name != built_as:
            raise self.file.error(f"the name is '{self.name}', but the port is built as"
                                  f" '{built_as}'", "port", "name")

    def check_contract(self, version: int) -> None:
        if self.contract != version:
            raise self.file.error(f"the port was written for version {self.contract} of the"
                                  f" contract, which is at {version}: see the change log in"
                                  " dapls_ib.hpp", "port", "contract")

    def check_features(self, known: list[str]) -> None:
        for name in self.features:
            if name not in known:
                raise self.file.error(f"there is no feature '{name}'; there are:"
                                      f" {', '.join(known)}", "features", name)


# ---------------------------------------------------------------------------------- the contract


def known_features(contract: pathlib.Path) -> list[str]:
    """The features that there are: the members of `struct features` in the contract."""
    body = re.search(r"struct features \{(.*?)\n\};", contract.read_text(), re.S)
    if body is None:
        raise ProfileError(f"{contract}: struct features not found")
    return re.findall(r"bool (\w+) = false;", body[1])


def dependents(contract: pathlib.Path, off: set[str]) -> set[str]:
    """The features that cannot be claimed without one of these, and these themselves."""
    needs = re.findall(r"static_assert\(T::claims\.(\w+) \|\| !T::claims\.(\w+),",
                       contract.read_text())
    found = set(off)
    while more := {each for needed, each in needs if needed in found} - found:
        found |= more
    return found


def contract_version(contract: pathlib.Path) -> int:
    version = re.search(r"^#define DAPLS_IB_VERSION (\d+)", contract.read_text(), re.M)
    if version is None:
        raise ProfileError(f"{contract}: DAPLS_IB_VERSION is not defined")
    return int(version[1])


# ------------------------------------------------------------------------------------ reading


def line_of(lines: list[str], table: str, key: str) -> int | None:
    """Where a key of a table stands, or the table, as these files are usually written."""
    inside = False
    found = None
    for number, line in enumerate(lines, 1):
        header = re.match(r"\s*\[+\s*([^\]]*?)\s*\]", line)
        if header:
            inside = header[1] == table
        told = re.match(r"""\s*["']?([^"'=]*?)["']?\s*[=.]""", line)
        if inside and told and told[1] == key:
            return number
        if (header and inside) or (told and told[1] == table):
            found = found or number
    return found


def text_of(path: pathlib.Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ProfileError(f"{path}: {error.strerror}") from error
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ProfileError(f"{path}:{line}: this is not UTF-8: byte"
                           f" 0x{content[error.start]:02x}") from error


def toml_of(path: pathlib.Path, text: str) -> dict:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        cause, _, place = str(error).partition(" (at ")
        line = re.match(r"line (\d+)", place)
        number = line[1] if line else text.rstrip("\n").count("\n") + 1
        raise ProfileError(f"{path}:{number}: this is no TOML: {cause}") from error


def check_tables(file: File, told: dict) -> None:
    for table, values in told.items():
        if table not in TABLES:
            raise file.error(f"there is no '{table}'; there are [port], [features] and [adapters]",
                             table)
        file.check_type(values, dict, f"[{table}]", table)


def check_port(file: File, port: dict) -> None:
    for key, value in port.items():
        if key not in PORT_KEYS:
            raise file.error(f"[port] has no '{key}'; it has {', '.join(PORT_KEYS)}", "port", key)
        file.check_type(value, PORT_KEYS[key], key, "port", key)
    for key in ("name", "contract"):
        if key not in port:
            raise file.error(f"says no {key}: [port] {key} = …", "port")


def check_adapters(file: File, adapters: dict) -> None:
    for name, parameters in adapters.items():
        what = f"the parameters of adapter '{name}'"
        file.check_type(parameters, str, what, "adapters", name)
        if not parameters.isprintable():
            raise file.error(f"{what} shall be plain text on one line", "adapters", name)
        if not ADAPTER.fullmatch(name):
            raise file.error(f"'{name}' is no name for an adapter: it shall be one word without"
                             " quotes, and not begin with #", "adapters", name)


def read(path: pathlib.Path) -> Profile:
    text = text_of(path)
    file = File(path, text.split("\n"))
    told = toml_of(path, text)
    check_tables(file, told)
    port, features, adapters = (told.get(each, {}) for each in TABLES)
    check_port(file, port)
    for name, claim in features.items():
        file.check_type(claim, bool, f"feature '{name}'", "features", name)
    check_adapters(file, adapters)
    return Profile(file, port["name"], port["contract"], features, adapters)
