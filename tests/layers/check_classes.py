#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Hold the size of classes: at most 40 member functions and 45 data members.

What counts: functions that the class declares, with templates, constructors and operators, but none
that is defaulted or deleted; its fields, with the fields of unnamed structures in it, and its
static variables, but no constants. Nested classes count for themselves.

A class does not get smaller by being cut apart. These count as part of it:
  - a base class without another derived class, unless KEPT_APART names it with the reason;
  - a friend that holds a reference to the class, or a pointer, and has no other data.

Left out: struct transport of a port and dapls_ib, which the transport contract fixes, and the C
structures in include/.

The sources are those of the build's compile_commands.json, read with libclang. Sources that are
compiled in the same way are read as one translation unit, so that headers are parsed few times.
"""

import argparse
import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shlex
import sys
import tempfile

DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"
SKIPPED = 77
MOST_FUNCTIONS = 40
MOST_MEMBERS = 45
ROOMS = ("am", "bench", "common", "conformance", "contract", "dat", "osd", "port_support", "tools",
         "transports")
MANY_PROGRAMS = ("bench",)  # each is read for itself, as they define the same names
EXCEPTED = {"transport", "dapls_ib"}
KEPT_APART = {
    "event_queue": "claim, storage and counting, which event_order and cq_notifier use as well",
    "queue_pair": "posting and its queues, with locks of their own; endpoint has the connection",
}


def skip(why: object) -> None:
    print(f"SKIPPED: no class was counted, because clang.cindex cannot be used ({why}). "
          "Debian has it in python3-clang, see tools/packages.check.")
    sys.exit(SKIPPED)


# The interpreter may be another than Debian's; the package suits every Python 3.
sys.path.append(DEBIAN_PACKAGES)
try:
    from clang import cindex
    cindex.Index.create()
except ImportError as error:
    skip(error)
except cindex.LibclangError as error:
    skip(error)

Kind = cindex.CursorKind
CLASSES = {Kind.CLASS_DECL, Kind.STRUCT_DECL, Kind.UNION_DECL, Kind.CLASS_TEMPLATE,
           Kind.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION}
FUNCTIONS = {Kind.CXX_METHOD, Kind.CONSTRUCTOR, Kind.DESTRUCTOR, Kind.CONVERSION_FUNCTION,
             Kind.FUNCTION_TEMPLATE}
BLOCKS = {Kind.NAMESPACE, Kind.LINKAGE_SPEC, Kind.UNEXPOSED_DECL}
INDIRECT = {cindex.TypeKind.POINTER, cindex.TypeKind.LVALUEREFERENCE,
            cindex.TypeKind.RVALUEREFERENCE}


@dataclasses.dataclass
class Class:
    name: str
    path: str
    line: int
    functions: int = 0
    members: int = 0
    bases: set[str] = dataclasses.field(default_factory=set)  # keys of classes, as the next two
    friends: set[str] = dataclasses.field(default_factory=set)
    refers_to: set[str] = dataclasses.field(default_factory=set)
    parts: list[str] = dataclasses.field(default_factory=list)  # names of classes that were added
                                                                # to it


@dataclasses.dataclass(frozen=True)
class Command:
    """How sources of one kind are compiled, without their names."""
    folder: str
    arguments: tuple[str, ...]
    program: str = ""  # the program whose sources are read for themselves


class CannotParse(Exception):
    pass


# --------------------------------------------------------------------------- reading the sources

def without_source(words: list[str]) -> tuple[str, ...]:
    """What libclang has to know of a command line: folders of headers, macros, the language."""
    kept = []
    rest = iter(words[1:])
    for word in rest:
        if word in ("-I", "-D", "-isystem", "-include"):
            kept += [word, next(rest)]
        elif word.startswith("-I") and word.endswith(".p"):
            continue  # Meson's private folder of a target, which no source includes from
        elif word.startswith(("-I", "-D", "-isystem", "-std=", "-fno-rtti", "-fno-exceptions")):
            kept.append(word)
    return tuple(kept)


def room_of(path: str, root: str) -> str:
    return os.path.relpath(path, root).split(os.sep)[0]


def sources_in(path: str) -> list[str]:
    """The sources that Meson has joined in this one, or itself."""
    if "-unity" not in os.path.basename(path):
        return [path]
    joined = pathlib.Path(path).read_text()
    return [os.path.normpath(source) for source in re.findall(r"(?m)^#include *<(.*)>", joined)]


def read_commands(build: pathlib.Path, root: str) -> dict[str, set[Command]]:
    """Each C++ source of the rooms, and the ways in which it is compiled there."""
    ways: dict[str, set[Command]] = collections.defaultdict(set)
    for entry in json.loads((build / "compile_commands.json").read_text()):
        listed = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
        sources = sources_in(listed) if listed.endswith(".cpp") else []
        if sources != [listed] and room_of(listed, str(build)) not in ROOMS:
            continue
        words = entry.get("arguments") or shlex.split(entry["command"])
        for source in sources:
            if room_of(source, root) in ROOMS:
                alone = room_of(source, root) in MANY_PROGRAMS
                program = os.path.dirname(entry["output"]) if alone else ""
                ways[source].add(Command(entry["directory"], without_source(words), program))
    return ways


def units_of(ways: dict[str, set[Command]]) -> list[tuple[Command, list[str]]]:
    """Few translation units in which each source is at least once, in the order of the build."""
    units = []
    rest = set(ways)
    while rest:
        sources_of = collections.defaultdict(list)
        for source in (each for each in ways if each in rest):
            for command in ways[source]:
                sources_of[command].append(source)
        command = max(sources_of, key=lambda each: (len(sources_of[each]), each.arguments,
                                                                each.program))
        units.append((command, sources_of[command]))
        rest -= set(sources_of[command])
    return units


def parse(index: cindex.Index, command: Command, sources: list[str]) -> cindex.TranslationUnit:
    name = os.path.join(command.folder, "all_of_one_kind.cpp")
    text = "".join(f'#include "{source}"\n' for source in sources)
    unit = index.parse(
        name, args=["-x", "c++", "-w", f"-working-directory={command.folder}", *command.arguments],
        unsaved_files=[(name, text)],
        options=cindex.TranslationUnit.PARSE_SKIP_FUNCTION_BODIES)
    errors = [str(each) for each in unit.diagnostics if each.severity >= cindex.Diagnostic.Error]
    if errors:
        raise CannotParse("\n".join(errors[:5]))
    return unit


# -------------------------------------------------------------------------------------- counting

def key_of(cursor: cindex.Cursor) -> str:
    where = cursor.location
    return f"{os.path.abspath(where.file.name)}:{where.line}:{where.column}"


def template_of(named: cindex.Cursor) -> cindex.Cursor | None:
    """The template of an instance. The module of clang 21 has a name for it; what its library answers
    is no whole cursor there."""
    if hasattr(named, "specialized_template"):
        return named.specialized_template
    return cindex.conf.lib.clang_getSpecializedCursorTemplate(named)


def key_of_class(named: cindex.Cursor | None) -> set[str]:
    """The key of the definition in the source, also if a template's instance was named."""
    if named is None or named.kind == Kind.NO_DECL_FOUND:
        return set()
    definition = (template_of(named) or named).get_definition()
    return {key_of(definition)} if definition is not None and definition.location.file else set()


def is_counted_function(cursor: cindex.Cursor) -> bool:
    return (cursor.kind in FUNCTIONS and not cursor.is_default_method()
            and cursor.availability != cindex.AvailabilityKind.NOT_AVAILABLE)


def read_field(field: cindex.Cursor, found: Class) -> None:
    found.members += 1
    if field.type.kind in INDIRECT:
        found.refers_to |= key_of_class(field.type.get_pointee().get_declaration())


def read_friend(friend: cindex.Cursor, found: Class) -> None:
    for named in friend.get_children():
        if named.kind == Kind.TYPE_REF:
            found.friends |= key_of_class(named.referenced)
        elif named.kind in CLASSES:
            found.friends |= key_of_class(named)


def read_class(cursor: cindex.Cursor, found: Class) -> None:
    for child in cursor.get_children():
        if is_counted_function(child):
            found.functions += 1
        elif child.kind == Kind.FIELD_DECL:
            read_field(child, found)
        elif child.kind == Kind.VAR_DECL and not child.type.is_const_qualified():
            found.members += 1
        elif child.kind == Kind.CXX_BASE_SPECIFIER:
            found.bases |= key_of_class(child.type.get_declaration())
        elif child.kind == Kind.FRIEND_DECL:
            read_friend(child, found)
        elif child.kind in CLASSES and child.is_anonymous():
            read_class(child, found)


def find_classes(cursor: cindex.Cursor, root: str, classes: dict[str, Class]) -> None:
    for child in cursor.get_children():
        if child.kind not in CLASSES and child.kind not in BLOCKS:
            continue
        place = child.location.file
        path = os.path.abspath(place.name) if place is not None else "/"
        if room_of(path, root) not in ROOMS:
            continue
        if child.kind in BLOCKS:
            find_classes(child, root, classes)
        elif child.is_definition() and not child.is_anonymous() and key_of(child) not in classes:
            found = Class(child.spelling, os.path.relpath(path, root), child.location.line)
            classes[key_of(child)] = found
            read_class(child, found)
            find_classes(child, root, classes)


def add(part: str, whole: Class, classes: dict[str, Class]) -> None:
    """Makes a class, with all its parts, a part of another."""
    found = classes[part]
    whole.functions += found.functions
    whole.members += found.members
    whole.parts += [found.name, *found.parts]


def join_parts(classes: dict[str, Class]) -> None:
    """Adds to each class the parts that were cut from it. A base comes after its own bases."""
    derived = collections.Counter(base for found in classes.values() for base in found.bases)
    joined: set[str] = set()

    def join(key: str) -> None:
        found = classes[key]
        if key in joined or found.name in EXCEPTED:
            return
        joined.add(key)
        for base in sorted(found.bases & classes.keys()):
            join(base)
            if derived[base] == 1 and classes[base].name not in KEPT_APART:
                add(base, found, classes)
        for friend in sorted(found.friends & classes.keys()):
            if key in classes[friend].refers_to and classes[friend].members == 1:
                add(friend, found, classes)

    for key in classes:
        join(key)


def classes_of(build: pathlib.Path, root: str) -> dict[str, Class]:
    ways = read_commands(build, root)
    if not ways:
        raise CannotParse(f"{build}/compile_commands.json has no source of {root}")
    index = cindex.Index.create()
    classes: dict[str, Class] = {}
    with contextlib.chdir(build):  # names of headers are relative to it, or absolute
        for command, sources in units_of(ways):
            find_classes(parse(index, command, sources).cursor, root, classes)
    join_parts(classes)
    return classes


def too_large(classes: dict[str, Class]) -> list[str]:
    findings = []
    for found in classes.values():
        if found.name in EXCEPTED or (found.functions <= MOST_FUNCTIONS
                                      and found.members <= MOST_MEMBERS):
            continue
        parts = f", with its parts {', '.join(found.parts)}," if found.parts else ""
        findings.append(f"{found.path}:{found.line}: {found.name}{parts} has {found.functions} "
                        f"functions and {found.members} data members; at most {MOST_FUNCTIONS} and "
                        f"{MOST_MEMBERS} are right")
    return sorted(findings)


def not_built(root: str, classes: dict[str, Class]) -> list[str]:
    """Folders whose classes were not seen: ports that are not built, other operating systems."""
    seen = {os.path.dirname(found.path) for found in classes.values()}
    folders = [path for room in ("osd", "transports")
               for path in sorted((pathlib.Path(root) / room).glob("*/")) if any(path.glob("*.cpp"))]
    return [str(path.relative_to(root)) for path in folders
            if not any((name + "/").startswith(f"{path.relative_to(root)}/") for name in seen)]


# ------------------------------------------------------------------------------------- self-test

def functions(count: int, prefix: str = "f") -> str:
    return " ".join(f"void {prefix}{each}();" for each in range(count))


def fields(count: int, prefix: str = "x") -> str:
    return " ".join(f"int {prefix}{each} = 0;" for each in range(count))


HALF = functions(21)
RIGHT = {
    "at both limits": f"class a {{ {functions(40)} {fields(45)} }};",
    "defaulted and deleted functions":
        f"struct a {{ a() = default; a(const a &) = delete; ~a() = default; {functions(40)} }};",
    "constants": f"struct a {{ {fields(45)} static constexpr int limit = 1; }};",
    "nested classes": f"class a {{ struct b {{ {HALF} }}; {HALF} }};",
    "a base of two": f"struct b {{ {HALF} }}; struct a : b {{ {HALF} }}; struct c : b {{}};",
    "a friend with data of its own":
        f"class a {{ friend class b; {HALF} }}; class b {{ a &of_; int own_ = 0; {HALF} }};",
    "what the contract fixes": f"struct transport {{ {functions(41)} }};",
    "a base kept apart": f"struct queue_pair {{ {HALF} }}; struct a : queue_pair {{ {HALF} }};",
}
WRONG = {
    "functions": f"class a {{ {functions(41)} }};",
    "data members": f"class a {{ {fields(46)} }};",
    "all kinds of functions": f"class a {{ a(int); ~a(); operator int(); bool operator!();"
                              f"template <class T> void g(T); static int h(); {functions(35)} }};",
    "static variables": f"class a {{ static int shared; {fields(45)} }};",
    "unnamed structures":
        f"class a {{ union {{ struct {{ {fields(40)} }}; int y; }}; {fields(5, 'z')} }};",
    "a template": f"template <class T> class a {{ {functions(41)} }};",
    "a nested class": f"namespace {{ struct b {{ struct a {{ {functions(41)} }}; }}; }}",
    "a base of one": f"struct b {{ {HALF} }}; struct a : b {{ {HALF} }};",
    "a chain of bases": f"struct c {{ {functions(15)} }}; struct b : c {{ {functions(15)} }};"
                        f"struct a : b {{ {functions(15)} }};",
    "a base that is a template":
        f"template <class T> struct b {{ {HALF} }}; struct a : b<int> {{ {HALF} }};",
    "a friend without data": f"class a {{ friend class b; {HALF} }}; class b {{ a &of_; {HALF} }};",
}


def findings_in(text: str, folder: pathlib.Path) -> list[str]:
    source = folder / "common" / "all.cpp"
    source.parent.mkdir(exist_ok=True)
    source.write_text(text + "\n")
    (folder / "compile_commands.json").write_text(json.dumps([
        {"directory": str(folder), "file": "common/all.cpp",
         "command": "c++ -std=c++20 -c common/all.cpp"}]))
    return too_large(classes_of(folder, str(folder)))


def expect(condition: bool, what: object) -> None:
    if not condition:
        sys.exit(f"self-test failed: {what}")


def self_test() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(os.path.realpath(name))
        for what, text in RIGHT.items():
            found = findings_in(text, folder)
            expect(found == [], (what, found))
        for what, text in WRONG.items():
            found = findings_in(text, folder)
            expect(len(found) == 1 and found[0].startswith("common/all.cpp:1: a"), (what, found))
        try:
            findings_in("class a {", folder)
        except CannotParse:
            print(f"each of {len(WRONG)} classes that are too large was found, and nothing else")
        else:
            sys.exit("self-test failed: a source that cannot be parsed was passed over")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path, nargs="?", help="top of the source tree")
    parser.add_argument("build", type=pathlib.Path, nargs="?", help="a build folder of it")
    parser.add_argument("--largest", type=int, default=0, metavar="N", help="print the N largest")
    parser.add_argument("--self-test", action="store_true", help="see that violations are found")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return
    if options.root is None or options.build is None:
        parser.error("which source tree, and where is it built?")
    root = os.path.realpath(options.root)
    try:
        classes = classes_of(pathlib.Path(os.path.realpath(options.build)), root)
    except CannotParse as error:
        sys.exit(f"clang cannot parse the sources; are all generated headers built?\n{error}")
    by_size = sorted(classes.values(), key=lambda c: -max(c.functions / MOST_FUNCTIONS,
                                                          c.members / MOST_MEMBERS))
    for found in by_size[:options.largest]:
        print(f"{found.functions:3} {found.members:3} {found.name} {' '.join(found.parts)}")
    findings = too_large(classes)
    print(*findings, sep="\n")
    print(f"{len(classes)} classes, {len(findings)} of them too large")
    if not_built(root, classes):
        print("not built here, so not counted:", *not_built(root, classes))
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
