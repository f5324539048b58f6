# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""port.toml, a port's description of itself: read and checked here for all programs that use it.

A mistake in one is reported in a line: the file, the line in it, and the cause.
"""

import dataclasses
import difflib
import pathlib
import re
import tomllib
from collections.abc import Iterable, Iterator

TABLES = ("port", "features", "own_features", "promises", "adapters", "waivers")
PORT_KEYS = {"name": str, "contract": int, "description": str}
TYPES = {str: "text in quotes", int: "a number", bool: "true or false", dict: "a table"}
# What a port can promise beyond DAT; the suite's --promise.
PROMISES = {
    "acknowledged": "a request completes only after the peer has accepted or refused it",
    "final_byte_last": "the last byte of an RDMA write becomes visible after all others",
    "local_protection": "the LMR contexts of local segments are checked",
    "private_descriptors": "programs that the consumer starts inherit no descriptor",
    "unmapped_memory": "unmapping registered memory fails operations, but ends no process; messages "
                       "of up to 4 KiB are left out",
    "unmapped_messages": "nor do messages of up to 4 KiB end one",
}
# A field of dat.conf: it begins no comment and needs no quotes. The build appends -plain.
ADAPTER = re.compile(r'[^\s"#][^\s"]{0,248}')


class ProfileError(Exception):
    """A mistake in a port.toml, in one line, and its place."""

    def __init__(self, cause: str, path: pathlib.Path | None = None,
                 line: int | None = None) -> None:
        where = "" if path is None else f"{path}:{line}: " if line else f"{path}: "
        super().__init__(where + cause)
        self.cause, self.path, self.line = cause, path, line


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a message about a word that is not known."""
    near = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean '{near[0]}'?" if near else ""


@dataclasses.dataclass(frozen=True)
class File:
    """The text of a port.toml."""

    path: pathlib.Path
    lines: list[str]

    def error(self, cause: str, table: str, key: str = "") -> ProfileError:
        return ProfileError(cause, self.path, line_of(self.lines, table, key))

    def type_faults(self, value: object, kind: type, what: str, table: str,
                    key: str = "") -> Iterator[ProfileError]:
        if type(value) is not kind:  # bool is a kind of int
            yield self.error(f"{what} shall be {TYPES[kind]}", table, key)


@dataclasses.dataclass(frozen=True)
class Profile:
    """What a port says of itself."""

    file: File
    name: str
    contract: int
    features: dict[str, bool]
    own_features: dict[str, bool]  # that concern the port alone; it names them
    promises: dict[str, bool]
    adapters: dict[str, str]  # name and parameters
    waivers: dict[str, str]  # adapter and file of the port's folder

    def name_faults(self, built_as: str) -> Iterator[ProfileError]:
        return name_faults(self.file, self.name, built_as)

    def contract_faults(self, version: int) -> Iterator[ProfileError]:
        return contract_faults(self.file, self.contract, version)

    def feature_faults(self, known: list[str]) -> Iterator[ProfileError]:
        return feature_faults(self.file, self.features, self.own_features, known)

    def suite_options(self, adapter: str) -> list[str]:
        """The options of dapl-conformance for this adapter: its promises and waivers."""
        options = [word for name, on in self.promises.items() if on
                   for word in ("--promise", name)]
        if adapter in self.waivers:
            options += ["--waivers", str(self.file.path.parent / self.waivers[adapter])]
        return options


def check(faults: Iterable[ProfileError]) -> None:
    """Refuse a file that has a fault."""
    for fault in faults:
        raise fault


# ---------------------------------------------------------------------------------- the contract


def known_features(contract: pathlib.Path) -> list[str]:
    """The features that there are: the members of `struct features` in the contract."""
    body = re.search(r"struct features \{(.*?)\n\};", contract.read_text(), re.S)
    if body is None:
        raise ProfileError(f"{contract}: struct features not found")
    return re.findall(r"bool (\w+) = false;", body[1])


def needs(contract: pathlib.Path) -> list[tuple[str, str]]:
    """Features, each behind a feature that it cannot be claimed without."""
    return re.findall(r"static_assert\(T::claims\.(\w+) \|\| !T::claims\.(\w+),",
                      contract.read_text())


def dependents(contract: pathlib.Path, off: set[str]) -> set[str]:
    """The features that cannot be claimed without one in `off`, and `off` itself."""
    found = set(off)
    while more := {each for needed, each in needs(contract) if needed in found} - found:
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
        raise ProfileError(str(error.strerror), path) from error
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ProfileError(f"this is not UTF-8: byte 0x{content[error.start]:02x}", path,
                           line) from error


def toml_of(path: pathlib.Path, text: str) -> dict:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        cause, _, place = str(error).partition(" (at ")
        line = re.match(r"line (\d+)", place)
        number = int(line[1]) if line else text.rstrip("\n").count("\n") + 1
        raise ProfileError(f"this is no TOML: {cause}", path, number) from error
    except (ValueError, RecursionError) as error:  # a number without end, brackets without end
        raise ProfileError("this is no TOML that can be read", path, 1) from error


def table_faults(file: File, told: dict) -> Iterator[ProfileError]:
    for table, values in told.items():
        if table not in TABLES:
            names = [f"[{each}]" for each in TABLES]
            yield file.error(f"there is no '{table}'; there are {', '.join(names[:-1])} and"
                             f" {names[-1]}{nearest(table, TABLES)}", table)
        else:
            yield from file.type_faults(values, dict, f"[{table}]", table)


def port_faults(file: File, port: dict) -> Iterator[ProfileError]:
    for key, value in port.items():
        if key not in PORT_KEYS:
            yield file.error(f"[port] has no '{key}'; it has {', '.join(PORT_KEYS)}"
                             f"{nearest(key, PORT_KEYS)}", "port", key)
        else:
            yield from file.type_faults(value, PORT_KEYS[key], key, "port", key)
    for key in ("name", "contract"):
        if key not in port:
            yield file.error(f"says no {key}: [port] {key} = …", "port")


def promise_faults(file: File, promises: dict) -> Iterator[ProfileError]:
    for name, on in promises.items():
        if name not in PROMISES:
            yield file.error(f"the suite knows no promise '{name}'; it knows:"
                             f" {', '.join(PROMISES)}{nearest(name, PROMISES)}", "promises", name)
        else:
            yield from file.type_faults(on, bool, f"promise '{name}'", "promises", name)


def adapter_faults(file: File, adapters: dict) -> Iterator[ProfileError]:
    for name, parameters in adapters.items():
        what = f"the parameters of adapter '{name}'"
        yield from file.type_faults(parameters, str, what, "adapters", name)
        if isinstance(parameters, str) and not parameters.isprintable():
            yield file.error(f"{what} shall be plain text on one line", "adapters", name)
        if not ADAPTER.fullmatch(name):
            yield file.error(f"'{name}' is no name for an adapter: it shall be one word without"
                             " quotes, and not begin with #", "adapters", name)


def waiver_faults(file: File, waivers: dict, adapters: dict) -> Iterator[ProfileError]:
    for name, path in waivers.items():
        if name not in adapters:
            known = ', '.join(adapters) or "none"
            yield file.error(f"there are waivers for '{name}', which is no adapter of the port; its"
                             f" adapters: {known}{nearest(name, adapters)}", "waivers", name)
        yield from file.type_faults(path, str, f"the file of the waivers for '{name}'", "waivers",
                                    name)


def faults(file: File, told: dict) -> Iterator[ProfileError]:
    """All that can be said without the contract and the port's code."""
    yield from table_faults(file, told)
    tables = {name: told.get(name, {}) for name in TABLES}
    port, features, own_features, promises, adapters, waivers = (
        values if isinstance(values, dict) else {} for values in tables.values())
    yield from port_faults(file, port)
    for table, claims in (("features", features), ("own_features", own_features)):
        for name, claim in claims.items():
            yield from file.type_faults(claim, bool, f"feature '{name}'", table, name)
    yield from promise_faults(file, promises)
    yield from adapter_faults(file, adapters)
    yield from waiver_faults(file, waivers, adapters)


def name_faults(file: File, name: str, built_as: str) -> Iterator[ProfileError]:
    """Folder, namespace and library have one name, and this is it."""
    if name != built_as:
        yield file.error(f"the name is '{name}', but the port is built as '{built_as}'", "port",
                         "name")


def contract_faults(file: File, written_for: int, version: int) -> Iterator[ProfileError]:
    if written_for != version:
        yield file.error(f"the port was written for version {written_for} of the contract, which is"
                         f" at {version}: dapl-port upgrade says what to adapt", "port",
                         "contract")


def feature_faults(file: File, features: dict, own: dict,
                   known: list[str]) -> Iterator[ProfileError]:
    for name in features:
        if name not in known:
            yield file.error(f"there is no feature '{name}'; there are: {', '.join(known)}; a"
                             f" feature of the port alone is in [own_features]"
                             f"{nearest(name, known)}", "features", name)
    for name in own:
        if name in known:
            yield file.error(f"'{name}' is a feature of the contract: say it in [features]",
                             "own_features", name)
        elif not re.fullmatch(r"[a-z]\w*", name):
            yield file.error(f"'{name}' is no name for a feature: code reads it as"
                             " own_features.NAME, with a small letter first", "own_features", name)


def load(path: pathlib.Path) -> tuple[File, dict]:
    return parsed(path, text_of(path))


def parsed(path: pathlib.Path, text: str) -> tuple[File, dict]:
    return File(path, text.split("\n")), toml_of(path, text)


def profile_of(file: File, told: dict) -> Profile:
    """What a file without faults says."""
    port = told["port"]
    return Profile(file, port["name"], port["contract"],
                   **{table: told.get(table, {}) for table in TABLES if table != "port"})


def read(path: pathlib.Path) -> Profile:
    file, told = load(path)
    check(faults(file, told))
    return profile_of(file, told)
