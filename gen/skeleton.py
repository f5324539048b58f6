# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A new port: its name, its files, and where they go."""

import dataclasses
import functools
import pathlib
import re
import shutil
import subprocess
import tempfile
import textwrap
from collections.abc import Iterator

import contract
import contract_reference
import port_toml
import rendering

MARK = "TODO(port)"  # what `status` looks for
# As the templates have it, with the group of a place where ports have its number.
DRAFT = re.compile(re.escape(MARK) + r" ([a-z]\w*) ([a-z]\w*):")
OPERATION = re.compile(rf"(?m)^( *)// {re.escape(MARK)} (dapls_ib_\w+)\n")
HOT_FILE = "port.hpp"
MAX_NAME = 32

# How a port begins.
STYLES = {
    "bare": "a skeleton, whose operations that need the device refuse until they are written",
    "sim": "a port that works at once, since a software HCA stands for the device: behind the"
           " functions of NAME_hw.cpp, which are moved to the device's driver one by one",
    "polled": "for a library that moves data only while it is called, and has no connection manager;"
              " the functions of NAME_lib.cpp, which call it, refuse until they are written",
    "callback": "for a library that has threads of its own and a connection manager, and reports"
                " everything by callbacks; the functions of NAME_api.cpp, which call it, refuse until"
                " they are written",
    "verbs-like": "for a library like libibverbs, with work queues, CQs that are polled, a"
                  " completion channel, and no connection manager; the functions of"
                  " NAME_verbs.cpp, which call it, refuse until they are written",
    "unconnected": "for a device that has reliable datagrams and no connections; the functions of"
                   " NAME_device.cpp, which call it, refuse until they are written",
}
# The file names, after the port's name, of the layer of functions that stands between a port of
# these styles and its device.
LAYERS = {"sim": "hw", "polled": "lib", "callback": "api", "verbs-like": "verbs",
          "unconnected": "device"}
# What a port of a style has from the beginning, by the part of the port runtime that it stands on.
HAS_FEATURES = {"unconnected": ("cq_resize", "srq", "immediate_data")}
HAS_PROMISES = {"unconnected": ("acknowledged", "local_protection")}

# What a device may lack, and what the skeleton then takes from port_support/.
CM = {"tcp": "the connection manager of the port runtime, over TCP", "own": "that of the device"}
KEYS = {"device": "the device's, which have 32 bits", "table": "numbers that stand for wider keys"}
TEXT_WIDTH = 92
# How a project of its own is built.
BUILD_FILES = {name: f"project.{name}.j2" for name in ("meson.build", "meson_options.txt")}

CPP_KEYWORDS = set("""
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class compl concept const consteval constexpr constinit const_cast continue co_await
    co_return co_yield decltype default delete do double dynamic_cast else enum explicit export
    extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq
    nullptr operator or or_eq private protected public register reinterpret_cast requires return
    short signed sizeof static static_assert static_cast struct switch template this thread_local
    throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while
    xor xor_eq
    """.split())
# Namespaces, folders and libraries of the kit, macros of the C library and of compilers, names that
# a file system keeps for itself. The name of a port is also the name of its namespace, folder and
# library.
RESERVED = set("""
    am common conformance contract dapl dat dats docs gen include meson osd std tests tools transport transports
    assert errno linux main major makedev minor offsetof stderr stdin stdout unix
    aux con nul prn com1 com2 com3 com4 lpt1 lpt2 lpt3 lpt4
    """.split())


class PortError(Exception):
    """A port cannot be made or found; the message says why and what to do."""


@dataclasses.dataclass(frozen=True)
class Port:
    """The name of a port, its owner, and its claims."""

    name: str
    vendor: str
    licence: str
    claims: tuple[str, ...] = ()
    cm: str = "tcp"
    keys: str = "device"
    style: str = "bare"


@dataclasses.dataclass(frozen=True)
class Place:
    """Something that the author of a port fills in: an operation, or another device call."""

    number: int
    name: str
    group: str
    file: str


@dataclasses.dataclass(frozen=True)
class Call:
    """A device call that the templates ask for beside the operations."""

    group: str
    style: str
    file: str  # its name in a skeleton, in which NAME stands for the name of the port


class Kit:
    """A source tree or an installed kit; both have one layout."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root.resolve()
        self.header_path = self.root / "contract/dapls_ib.hpp"
        self.table_path = self.root / "gen/dapls_ib.toml"
        self.templates = self.root / "transports/template"
        self.transports = self.root / "transports"
        self.list_path = self.transports / "meson.build"
        for needed in (self.header_path, self.table_path, self.templates):
            if not needed.exists():
                raise PortError(f"{self.root} is no port kit: it has no"
                                f" {needed.relative_to(self.root)}")
        self.header = contract.read_header(self.header_path)
        self.table = contract.read_table(self.table_path)
        self.places = dict(calls_in(self.templates))
        self.groups: dict[str, dict] = self.table["groups"]
        self.operations = contract.operations(self.header, self.table)

    @property
    def is_installed(self) -> bool:
        """An installed kit is not written to: its ports are elsewhere."""
        return not self.list_path.exists()

    def ports(self) -> list[str]:
        return [] if self.is_installed else ports_in(self.list_path)


def find_kit(given: pathlib.Path | None) -> Kit:
    """Find the kit that was asked for, the kit around the current folder, or our own."""
    if given is not None:
        if not given.is_dir():
            raise PortError(f"there is no folder {given}")
        return Kit(given)
    here = pathlib.Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "contract/dapls_ib.hpp").exists() and (folder / "gen/dapls_ib.toml").exists():
            return Kit(folder)
    return Kit(pathlib.Path(__file__).resolve().parents[1])


def pkg_config_folder(kit: Kit) -> str | None:
    """What to name in PKG_CONFIG_PATH for a project to find this kit: nothing where it is found
    anyway, None where the kit is not installed."""
    if not kit.is_installed:
        return None
    try:
        told = subprocess.run(["pkg-config", "--variable=kitdir", "dapl-kit"], text=True,
                              capture_output=True, check=False).stdout.strip()
    except OSError:
        told = ""
    if told and pathlib.Path(told).resolve() == kit.root:
        return ""
    for prefix in kit.root.parents:
        for pattern in ("lib*/pkgconfig/dapl-kit.pc", "lib*/*/pkgconfig/dapl-kit.pc"):
            if found := next(prefix.glob(pattern), None):
                return str(found.parent)
    return ""


# -------------------------------------------------------------------------------------- names


def check_name(name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise PortError(f"'{name}' is no name for a port: it shall be lower-case letters, digits"
                        " and underscores, and begin with a letter")
    if name.endswith("_") or "__" in name:
        raise PortError(f"'{name}' is no name for a port: underscores shall stand alone, between"
                        " others")
    if len(name) > MAX_NAME:
        raise PortError(f"'{name}' is no name for a port: {len(name)} characters, at most"
                        f" {MAX_NAME} are allowed")
    if name in CPP_KEYWORDS:
        raise PortError(f"'{name}' is no name for a port: it is a word of C++, and the port becomes"
                        " a namespace")
    if name in RESERVED:
        raise PortError(f"'{name}' is no name for a port: it is reserved")


def check_text(what: str, text: str) -> None:
    if not text.strip() or not text.isprintable() or re.search(r'["\\`|<>]|\*/|/\*', text):
        raise PortError(f"the {what} shall be plain text on one line, without quotes, backslashes,"
                        f" or the signs < > | `; '{text}' is not")


def check_port(kit: Kit, port: Port) -> None:
    check_name(port.name)
    check_text("vendor", port.vendor)
    check_text("licence", port.licence)
    for claim in port.claims:
        if claim not in kit.header.features:
            raise PortError(f"there is no feature '{claim}'; there are:"
                            f" {', '.join(kit.header.features)}")
    if port.style in LAYERS:
        check_layered(port)


def check_layered(port: Port) -> None:
    """Refuse options that these styles answer themselves; other styles ask the device."""
    if port.claims:
        of_layer = ", ".join(HAS_FEATURES.get(port.style, ()))
        nothing = f"nothing but what its layer has ({of_layer})" if of_layer else "nothing"
        raise PortError(f"a port of style {port.style} claims {nothing} at first: claim a feature in its"
                        " port.toml and write its operations when the port works")
    if (port.cm, port.keys) != ("tcp", "device"):
        has = {"sim": "the software HCA has a connection manager",
               "polled": "a port of style polled uses the port runtime's connection manager",
               "callback": "a library of style callback has one",
               "verbs-like": "a port of style verbs-like uses the port runtime's connection manager",
               "unconnected": "a port of style unconnected uses the port runtime's connection manager",
               }[port.style]
        raise PortError(f"--cm and --keys are for --style bare: {has}, and keys of 32 bits")


# ------------------------------------------------------------------------------------- the text


def anonymous(parameter: str) -> str:
    """A parameter of a function that does not use it."""
    kind = contract.without_name(parameter)
    name = parameter[len(kind):].strip()
    return f"{kind} /*{name}*/" if name else kind


def head(operation: contract.Operation, scope: str, names: bool) -> str:
    declared = operation.declared
    parameters = declared.parameters if names else map(anonymous, declared.parameters)
    return f"{declared.returns} {scope}{operation.name}({', '.join(parameters)})"


def indented(text: str, by: str) -> str:
    return "\n".join(by + line if line else line for line in text.split("\n"))


def in_class(operation: contract.Operation) -> str:
    text = contract_reference.wrapped("static " + head(operation, "", True) + ";", 96)
    return indented(text, "    ")


def declared(kit: Kit, operations: list[contract.Operation]) -> str:
    """The slow operations as a port's class declares them, group by group."""
    found = []
    for key, group in kit.groups.items():
        slow = [in_class(each) for each in operations
                if each.group == key and each.thread != "hot"]
        if slow:
            found.append("\n".join([f"    // {group['title']}: {group['file']}", *slow]))
    return "\n\n".join(found)


def body(operation: contract.Operation) -> str:
    answers = {"status": "return not_supported;", "void": "", "bool": "return false;"}
    return answers.get(operation.declared.returns, "return {};")


def stub(operation: contract.Operation) -> str:
    """A definition in a .cpp file, as clang-format has it."""
    text = contract_reference.wrapped(head(operation, "transport::", False))
    answer = body(operation)
    return f"{text}\n{{\n    {answer}\n}}" if answer else f"{text} {{}}"


def inline_stub(operation: contract.Operation) -> str:
    """A definition in the class; on one line if it fits there."""
    text = contract_reference.wrapped("static " + head(operation, "", False), 96)
    answer = body(operation)
    short = f"{text} {{ {answer} }}" if answer else f"{text} {{}}"
    if "\n" in short or len(short) > 96:
        short = f"{text}\n{{\n    {answer}\n}}"
    return indented(short, "    ")


def lines(text: str) -> tuple[str, ...]:
    return tuple(textwrap.wrap(text, TEXT_WIDTH, break_on_hyphens=False))


def called_as(kit: Kit, operation: contract.Operation) -> tuple[str, ...]:
    """Say who calls an operation, and where to read on."""
    blocks = "may block" if operation.may_block else "does not block"
    rules = f" Shown by {', '.join(operation.rules)}." if operation.rules else ""
    return lines(f"{operation.thread.capitalize()}, {blocks}; {guide(kit, operation.group)}.{rules}")


def called_text(kit: Kit, name: str) -> str:
    """What a comment of a template says of the operation for which a device call is made."""
    operation = next(each for each in kit.operations if each.name == name)
    return "\n// ".join(called_as(kit, operation))


def operation_text(kit: Kit, operation: contract.Operation, by: str = "") -> str:
    """The comment above an operation that the author writes: its mark, and what the contract says."""
    mark = textwrap.wrap(f"{MARK} 00 {operation.name}: {operation.brief}", 97 - len(by),
                         break_on_hyphens=False)
    mark[0] = mark[0].replace(f"{MARK} 00", f"{MARK} {operation.group}")
    return "".join(f"{by}// {line}".rstrip() + "\n" for line in
                   (*mark, *operation.declared.text, *called_as(kit, operation)))


def guide(kit: Kit, group: str) -> str:
    return f"see porting.md, {kit.groups[group]['guide']}"


def with_operations(kit: Kit, text: str) -> str:
    """A text with the contract's words at the marks of operations."""
    by_name = {each.name: each for each in kit.operations}
    return OPERATION.sub(lambda mark: operation_text(kit, by_name[mark[2]], mark[1]), text)


def calls_in(templates: pathlib.Path) -> Iterator[tuple[str, Call]]:
    """The device calls that are marked in the templates, by name."""
    for path in sorted(templates.rglob("*.?pp.j2"), key=header_first):
        style = "bare" if path.parent == templates else path.parent.name
        name = path.name.removesuffix(".j2").replace("cm_own", "cm").replace("cm_tcp", "cm")
        file = f"NAME_{name}" if name.partition(".")[0] == LAYERS.get(style) else name
        for group, call in DRAFT.findall(path.read_text()):
            yield call, Call(group, style, file)


def header_first(path: pathlib.PurePath) -> tuple[bool, str]:
    return path.suffixes[0] != ".hpp", str(path)


def places_in(kit: Kit, files: dict[str, str]) -> dict[str, Place]:
    """All there is to fill in, by name, in the order of work: group by group, what headers ask for,
    the operations, the other device calls."""
    order = [each.name for each in kit.operations]
    groups = list(kit.groups)
    found = [(groups.index(group), 1 if name in order else 0 if file.endswith(".hpp") else 2,
              order.index(name) if name in order else 0, file, group, name)
             for file in sorted(files, key=lambda name: header_first(pathlib.PurePath(name)))
             for group, name in DRAFT.findall(files[file])]
    ranked = sorted(found, key=lambda each: each[:3])
    return {name: Place(number, name, group, file)
            for number, (*_, file, group, name) in enumerate(ranked, 1)}


def numbered(text: str, all_places: dict[str, Place]) -> str:
    """A text whose marks have their places' numbers."""
    return DRAFT.sub(lambda mark: f"{MARK} {all_places[mark[2]].number} {mark[2]}:", text)


def place_of(kit: Kit, operation: contract.Operation) -> str:
    """The file of a skeleton in which an operation stands."""
    return HOT_FILE if operation.thread == "hot" else kit.groups[operation.group]["file"]


def steps(kit: Kit, all_places: dict[str, Place]) -> list[dict]:
    """The groups of a port's places, each with their numbers and files."""
    found = []
    for name, group in kit.groups.items():
        some = [place for place in all_places.values() if place.group == name]
        if some:
            first, last = some[0].number, some[-1].number
            found.append({**group, "files": sorted({place.file for place in some}),
                          "places": [place.name for place in some],
                          "numbers": f"{first}-{last}" if first != last else f"{first}"})
    return found


def types_of(kit: Kit, operations: list[contract.Operation]) -> list[str]:
    """The types that a port with these operations names."""
    used = {word for each in operations
            for word in re.findall(r"\w+", " ".join(each.declared.parameters))}
    return [*kit.header.types, *(name for name in kit.header.optional_types if name in used)]


def wanted(kit: Kit, port: Port) -> list[contract.Operation]:
    """What the skeleton has: all that is required, and what the claims ask for."""
    return [operation for operation in kit.operations
            if operation.required or set(operation.features) & set(port.claims)]


def sources(kit: Kit, operations: list[contract.Operation]) -> dict[str, list[contract.Operation]]:
    """The slow operations of each file."""
    files: dict[str, list[contract.Operation]] = {}
    for operation in operations:
        if operation.thread != "hot":
            files.setdefault(place_of(kit, operation), []).append(operation)
    return dict(sorted(files.items()))


def places(kit: Kit, port: Port) -> dict[str, Place]:
    """All there is to fill in of a new port, by name, in the order of work."""
    return places_in(kit, drafts(kit, port, False)[0])


def files_of(kit: Kit, port: Port, alone: bool = False) -> dict[str, str]:
    """The files of a new port, by name."""
    files, readme, common = drafts(kit, port, alone)
    all_places = places_in(kit, files)
    files = {name: numbered(text, all_places) for name, text in files.items()}
    files["README.md"] = rendering.render(readme, steps=steps(kit, all_places),
                                          count=len(all_places), **common)
    return dict(sorted(files.items()))


def drafts(kit: Kit, port: Port, alone: bool) -> tuple[dict[str, str], pathlib.Path, dict]:
    """The files of a new port whose places have no numbers yet; the template of the README, and what
    templates find."""
    operations = [] if port.style in LAYERS else wanted(kit, port)
    declares = operations or [each for each in kit.operations if each.required]
    by_file = sources(kit, operations)
    folder = kit.templates / port.style if port.style in LAYERS else kit.templates
    templates = templates_of(kit, port, folder)
    if alone:
        templates |= {name: kit.templates / template for name, template in BUILD_FILES.items()}
    readme = templates.pop("README.md")
    common = {
        "port": port, "version": kit.header.version, "operations": operations,
        "claims": {*port.claims, *HAS_FEATURES.get(port.style, ())},
        "promised": HAS_PROMISES.get(port.style, ()),
        "optional_types": sorted({*types_of(kit, operations)} - {*kit.header.types}),
        "features": kit.header.features, "promises": port_toml.PROMISES, "groups": kit.groups,
        "sources": sorted(name for name in {*templates, *by_file} if name.endswith(".cpp")),
        "alone": alone, "status_of": "" if alone else f" {port.name}",
        "declared": declared(kit, declares), "stub": stub, "inline_stub": inline_stub,
        "called": functools.partial(called_text, kit),
    }
    files = {name: rendering.render(path, **common) for name, path in templates.items()}
    for name, some in by_file.items():
        files[name] = source_of(kit, port, name, some, common)
    return {name: with_operations(kit, text) for name, text in files.items()}, readme, common


def templates_of(kit: Kit, port: Port, folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """The templates that belong to one file each, by the file's name."""
    if port.style not in LAYERS:
        return {name: folder / f"{name}.j2"
                for name in ("port.hpp", "port.toml", "README.md", "meson.build")}
    found = {path.name.removesuffix(".j2"): path for path in folder.glob("*.j2")}
    layer = LAYERS[port.style]
    for name in (f"{layer}.cpp", f"{layer}.hpp"):  # named after the port
        found[f"{port.name}_{name}"] = found.pop(name)
    return {**found, "port.toml": kit.templates / "port.toml.j2"}


def source_of(kit: Kit, port: Port, name: str, some: list[contract.Operation],
              common: dict) -> str:
    """A .cpp file: from the template of its name, or a file that has nothing but operations."""
    stem, dot, suffix = name.partition(".")
    own = (kit.templates / f"{stem}_{port.cm}{dot}{suffix}.j2", kit.templates / f"{name}.j2",
           kit.templates / "operations.cpp.j2")
    titles = dict.fromkeys(kit.groups[each.group]["title"] for each in some)
    title = ", ".join(titles)
    template = next(path for path in own if path.exists())
    written = template.read_text()
    others = [each for each in some if f"transport::{each.name}(" not in written]
    return rendering.render(template, **{**common, "operations": others},
                            title=title[0].upper() + title[1:])


# ---------------------------------------------------------------------------------- the ports list

LIST = re.compile(r"^ports = \[\n((?:  '\w+',\n)*)\]$", re.M)


def ports_in(path: pathlib.Path) -> list[str]:
    return re.findall(r"'(\w+)'", list_of(path, path.read_text())[1])


def list_of(path: pathlib.Path, text: str) -> re.Match[str]:
    found = LIST.search(text)
    if found is None:
        raise PortError(f"{path} has no list 'ports = [' with a line for each port")
    return found


def with_port(path: pathlib.Path, name: str) -> str:
    """The text of the file with one more line, where it sorts."""
    text = path.read_text()
    found = list_of(path, text)
    lines = found[1].splitlines(keepends=True)
    line = f"  '{name}',\n"
    place = next((i for i, other in enumerate(lines) if other > line), len(lines))
    lines.insert(place, line)
    return text[:found.start(1)] + "".join(lines) + text[found.end(1):]


# ------------------------------------------------------------------------------------- writing


def replace_text(path: pathlib.Path, text: str) -> None:
    """Change a file whole or not at all."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.",
                                     delete=False) as stream:
        new = pathlib.Path(stream.name)
        try:
            stream.write(text)
            stream.close()
            shutil.copymode(path, new)
            new.replace(path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise


def write_folder(folder: pathlib.Path, files: dict[str, str | bytes]) -> None:
    """Make a folder whole or not at all: it is written beside its place, then moved there."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as beside:
        new = pathlib.Path(beside) / folder.name
        new.mkdir()
        for name, text in files.items():
            (new / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        new.replace(folder)


def check_free(kit: Kit, name: str) -> None:
    if name in kit.ports():
        raise PortError(f"there is a port '{name}' already, in {kit.list_path}")
    if (kit.transports / name).exists():
        raise PortError(f"there is a folder {kit.transports / name} already")


def add_to_tree(kit: Kit, port: Port, files: dict[str, str]) -> None:
    """The folder first, the line last: a tree without the line still builds."""
    folder = kit.transports / port.name
    changed = with_port(kit.list_path, port.name)
    write_folder(folder, files)
    try:
        replace_text(kit.list_path, changed)
    except BaseException:
        shutil.rmtree(folder)
        raise


def check_empty(folder: pathlib.Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PortError(f"{folder} is there already, and is no empty folder")
    if not folder.parent.is_dir():
        raise PortError(f"there is no folder {folder.parent}")
