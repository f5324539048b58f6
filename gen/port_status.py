# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How far a port has come: the parts that are still a skeleton, its claims, and the next step."""

import dataclasses
import json
import pathlib
import re
from collections.abc import Iterator

import contract
import port_lock
import port_toml
import scorecard
from skeleton import MARK, Kit, PortError, place_of

SOURCES = {".cpp", ".hpp", ".cc", ".h"}
MOST = 8  # cases that one line names
PROFILE = "port.toml"
UPGRADE = "upgrade"  # the folder of a port in which `upgrade` puts merged files

# States of an operation in a port.
SKELETON = "skeleton"  # carries the mark
WRITTEN = "written"
MISSING = "missing"  # required or claimed, and nowhere to be seen
UNCLAIMED = "unclaimed"  # no feature that needs it is claimed
SIMULATED = "simulated"  # a device call: carries the mark, and the software HCA does it

SUGGESTED = 3  # number of features suggested of each kind


@dataclasses.dataclass(frozen=True)
class Status:
    """A port as it stands."""

    name: str
    folder: pathlib.Path
    contract: int
    wanted_contract: int
    claims: dict[str, bool]
    states: dict[str, str]  # state of each operation, by its name
    marked: dict[str, int]  # places that are still to be filled in, and their numbers
    places: int | None  # how many it began with; None where there is no lock file
    suite: scorecard.Scorecard | None
    next_step: str

    def count(self, state: str) -> int:
        return list(self.states.values()).count(state)

    @property
    def filled(self) -> int | None:
        return None if self.places is None else self.places - len(self.marked)

    def open_calls(self, kit: Kit) -> list[str]:
        """Device calls beside the operations that are still to be filled in."""
        return [name for name in kit.places if name in self.marked]

    def simulated(self, kit: Kit) -> list[str]:
        """The device calls still open that the software HCA does until then."""
        return [name for name in self.open_calls(kit) if is_simulated(kit, name)]


def is_simulated(kit: Kit, name: str) -> bool:
    return name in kit.places and kit.places[name].style == "sim"


def folder_of(kit: Kit, name: str | None, directory: pathlib.Path | None) -> pathlib.Path:
    """The port's folder: the named one, a folder of the kit, or the current folder."""
    if directory is not None:
        return checked(directory)
    if name is None:
        return own_folder() or checked(pathlib.Path.cwd())
    if not kit.is_installed and (name in kit.ports() or (kit.transports / name).is_dir()):
        return checked(kit.transports / name)
    own = own_folder()
    here = port_toml.read(own / PROFILE).name if own else None
    if own is not None and name == here:
        return own
    known = kit.ports() or ([here] if here else [])
    there_are = (f"; there are: {', '.join(known)}" if known
                 else " here: go to its folder, or name that with --directory")
    raise PortError(f"there is no port '{name}'{there_are}")


def checked(folder: pathlib.Path) -> pathlib.Path:
    if not (folder / PROFILE).exists():
        raise PortError(f"{folder} is no port: it has no {PROFILE}")
    return folder


def own_folder() -> pathlib.Path | None:
    """The port that the current folder is part of, or is a build folder of."""
    here = pathlib.Path.cwd()
    for folder in (here, *here.parents):
        for port in (folder, built_from(folder)):
            if port is not None and (port / PROFILE).exists():
                return port
    return None


def built_from(folder: pathlib.Path) -> pathlib.Path | None:
    """The source folder of a folder that Meson builds in."""
    try:
        told = json.loads((folder / "meson-info/meson-info.json").read_text())
        return pathlib.Path(told["directories"]["source"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def texts_of(folder: pathlib.Path) -> dict[pathlib.Path, str]:
    """The port's sources."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in SOURCES
                   and path.relative_to(folder).parts[0] != UPGRADE)
    return {path: path.read_text(errors="replace") for path in paths}


def without_comments(text: str) -> str:
    """The text, line by line, with nothing but code."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", lambda comment: " " + "\n" * comment[0].count("\n"),
                  text, flags=re.S)


def declared_in(texts: dict[pathlib.Path, str]) -> dict[str, tuple[pathlib.Path, int]]:
    """The operations that the port declares itself, and where: static members, as the contract has
    them. A call, a `using` or a definition without such a member is none."""
    found: dict[str, tuple[pathlib.Path, int]] = {}
    for path, text in texts.items():
        code = without_comments(text)
        for each in re.finditer(r"\bstatic\b[^;{}()]*?\b(dapls_ib_\w+)\s*\(", code):
            found.setdefault(each[1], (path, code.count("\n", 0, each.start(1)) + 1))
    return found


def inherited(kit: Kit, texts: dict[pathlib.Path, str]) -> set[str]:
    """The operations of layers of the port runtime that the port stands on, by their headers."""
    named = {found[1] for text in texts.values()
             for found in re.finditer(r'^\s*#\s*include\s+"(\w+/[\w/]+\.hpp)"', text, re.M)}
    paths = [kit.root / "port_support" / name for name in sorted(named)]
    return set(declared_in({path: path.read_text(errors="replace") for path in paths
                            if path.is_file()}))


def marks_in(kit: Kit, text: str) -> Iterator[tuple[str, int, int]]:
    """Places that are still to be filled in: name, number and line."""
    known = {*kit.places, *(each.name for each in kit.operations)}
    for each in re.finditer(re.escape(MARK) + r"\W*(?:(\d+)\W+)?([a-z]\w*)", text):
        if each[2] in known:
            yield each[2], int(each[1] or 0), text.count("\n", 0, each.start()) + 1


def functions_in(kit: Kit, text: str) -> Iterator[tuple[str, str]]:
    """The places of a skeleton's file that are functions: name, and code without its comment."""
    lines = text.split("\n")
    for name, _, line in marks_in(kit, text):
        while lines[line - 1].lstrip().startswith("//"):
            line += 1
        code = "\n".join(lines[line - 1:])
        opening = code.find("{")
        head = code[:max(opening, 0)]
        if "(" in head and ";" not in head:
            yield name, code[:end_of_block(code, opening)]


def end_of_block(code: str, opening: int) -> int:
    """The place after the bracket that closes a block."""
    depth = 0
    for bracket in re.finditer("[{}]", code[opening:]):
        depth += 1 if bracket[0] == "{" else -1
        if depth == 0:
            return opening + bracket.end()
    return len(code)


def found_in(texts: dict[pathlib.Path, str], code: str) -> tuple[pathlib.Path, int] | None:
    """Where sources have a text, however it is broken into lines."""
    same = re.compile(r"\s+".join(map(re.escape, code.split())))
    for path, text in texts.items():
        if found := same.search(text):
            return path, text.count("\n", 0, found.start()) + 1
    return None


def state_of(operation: contract.Operation, claims: dict[str, bool], marked: dict[str, int],
             code: set[str], of_layers: set[str]) -> str:
    if operation.name in marked:
        return SKELETON
    if operation.name in code:
        return WRITTEN
    if not operation.required and not any(claims.get(each, False) for each in operation.features):
        return UNCLAIMED
    return WRITTEN if operation.name in of_layers else MISSING


def todo_in(kit: Kit, group: str, states: dict[str, str], marked: dict[str, int]) -> list[str]:
    """The parts of a group still to be written, in the order of the numbers."""
    todo = [each.name for each in kit.operations
            if each.group == group and states[each.name] in (SKELETON, MISSING)]
    todo += [name for name, call in kit.places.items() if call.group == group and name in marked]
    return sorted(todo, key=lambda name: marked.get(name, 0))


def group_step(kit: Kit, states: dict[str, str], marked: dict[str, int],
               adapter: str) -> str | None:
    """The first group of the table that is not done, and how to try it."""
    for name, group in kit.groups.items():
        if todo := todo_in(kit, name, states, marked):
            cases = " ".join(f"--case '{case}'" for case in group["tests"])
            simulated = all(is_simulated(kit, each) for each in todo)
            what = ("Still simulated, to be moved to the driver" if simulated
                    else f"{group['next']} To be written")
            return (f"{what}: {', '.join(todo)}. "
                    f"To try it: dapl-conformance --ia {adapter} {cases}")
    return None


def suite_step(kit: Kit, suite: scorecard.Scorecard, todo: dict[str, list[str]]) -> str | None:
    """What its results ask for before anything else is written."""
    if suite.failed:
        some = ", ".join(suite.failed[:MOST]) + (" …" if len(suite.failed) > MOST else "")
        return (f"{number(len(suite.failed), 'case fails', 'cases fail')}: {some}. To see why:"
                f" dapl-conformance --ia {suite.adapter} --case {suite.failed[0]}")
    for name, group in kit.groups.items():
        if (count := suite.waits.get(name, 0)) and not todo[name]:
            return (f"{group['title']}: nothing is left to be written, but"
                    f" {number(count, 'case says', 'cases say')} that it is not supported. If the"
                    f" results are those of this code, dapl-conformance --ia {suite.adapter} tells"
                    " what refuses.")
    return None


def next_step(kit: Kit, profile: port_toml.Profile, states: dict[str, str],
              marked: dict[str, int], claims: dict[str, bool],
              suite: scorecard.Scorecard | None) -> str:
    adapter = next(iter(profile.adapters), f"{profile.name}-lo")
    todo = {name: todo_in(kit, name, states, marked) for name in kit.groups}
    if suite is not None and (first := suite_step(kit, suite, todo)):
        return first
    step = group_step(kit, states, marked, adapter)
    if step is not None:
        return step
    if profile.contract != kit.header.version:
        return (f"The port was written for version {profile.contract} of the contract, which is now"
                f" at {kit.header.version}: dapl-port upgrade {profile.name} says what to adapt.")
    if silent := written_unclaimed(kit, states, claims):
        return (f"{', '.join(silent)}: written, but not claimed in port.toml, so not used. Claim"
                f" what works, then run dapl-conformance --ia {adapter}.")
    if not all(claims.values()):
        return (f"All that is claimed is written: run dapl-conformance --ia {adapter}."
                f" {suggestion(kit, claims)}")
    return f"All is written: run dapl-conformance --ia {adapter}."


def suggestion(kit: Kit, claims: dict[str, bool]) -> str:
    """What could be claimed next: a few features, whose own needs are claimed."""
    waiting = {each for needed, each in port_toml.needs(kit.header_path) if not claims[needed]}
    kinds = []
    for judged, gain in ((True, "which cases judge"), (False, "which save time only")):
        open_ones = [name for name in kit.header.features if not claims[name]
                     and name not in waiting and (name in kit.header.judged) == judged]
        if open_ones:
            kinds.append(f"{', '.join(open_ones[:SUGGESTED])}, {gain}")
    return (f"Features that could be claimed next: {'; '.join(kinds)}."
            " docs/porting.md, Features, says what each takes.")


def written_unclaimed(kit: Kit, states: dict[str, str], claims: dict[str, bool]) -> list[str]:
    """Operations that no claimed feature uses."""
    return [each.name for each in kit.operations
            if each.features and states[each.name] == WRITTEN
            and not any(claims[feature] for feature in each.features)]


def places_of(kit: Kit, folder: pathlib.Path, marked: dict[str, int]) -> int | None:
    """How many places there are, filled in or not: by the skeleton that the port began as."""
    try:
        begun = port_lock.read(folder / port_lock.NAME).files
    except port_toml.ProfileError:
        return None
    return len({*marked, *(name for file, text in begun.items()
                           if pathlib.PurePath(file).suffix in SOURCES
                           for name, _, _ in marks_in(kit, text))})


def read_status(kit: Kit, folder: pathlib.Path, results: pathlib.Path | None = None) -> Status:
    profile = port_toml.read(folder / PROFILE)
    port_toml.check(profile.feature_faults(list(kit.header.features)))
    if folder.resolve().parent == kit.transports:
        port_toml.check(profile.name_faults(folder.resolve().name))
    claims = {name: profile.features.get(name, False) for name in kit.header.features}
    texts = texts_of(folder)
    marked = {name: number for text in texts.values() for name, number, _ in marks_in(kit, text)}
    code = set(declared_in(texts))
    of_layers = inherited(kit, texts)
    states = {each.name: state_of(each, claims, marked, code, of_layers)
              for each in kit.operations}
    suite = None if results is None else suite_of(results, profile, claims)
    return Status(profile.name, folder, profile.contract, kit.header.version, claims, states,
                  marked, places_of(kit, folder, marked), suite,
                  next_step(kit, profile, states, marked, claims, suite))


def suite_of(results: pathlib.Path, profile: port_toml.Profile,
             claims: dict[str, bool]) -> scorecard.Scorecard:
    suite = scorecard.read(results, claims)
    if suite.adapter not in profile.adapters:
        raise port_toml.ProfileError(f"these are results of '{suite.adapter}', which is no adapter"
                                     f" of {profile.name}", results)
    return suite


def by_number(place: tuple[str, int]) -> int:
    return place[1]


def as_json(kit: Kit, status: Status) -> dict:
    return {
        "name": status.name,
        "folder": str(status.folder),
        "contract": {"port": status.contract, "kit": status.wanted_contract},
        "features": status.claims,
        "operations": {
            each.name: {"state": status.states[each.name], "group": each.group,
                        "features": list(each.features), "rules": list(each.rules)}
            for each in kit.operations},
        "places": {name: number for name, number in sorted(status.marked.items(), key=by_number)
                   if number},
        "filled": status.filled,
        "simulated": status.simulated(kit),
        "suite": None if status.suite is None else suite_as_json(status.suite),
        "counts": {state: status.count(state)
                   for state in (WRITTEN, SKELETON, MISSING, UNCLAIMED)},
        "next": status.next_step,
    }


def suite_as_json(suite: scorecard.Scorecard) -> dict:
    return {"results": str(suite.path), "adapter": suite.adapter, "date": suite.date,
            "groups": {each.name: {"green": each.is_green, "passed": each.passed,
                                   "failed": each.failed, "waived": each.waived,
                                   "waiting": each.waiting, "not_claimed": each.not_claimed}
                       for each in suite.groups},
            "waits": suite.waits}


def number(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


def group_text(group: scorecard.Group) -> str:
    counts = ((group.failed, "failed"), (group.passed, "passed"), (group.waived, "waived"),
              (group.waiting, "waiting for operations to be written"),
              (group.not_claimed, "not claimed"))
    told = ", ".join(f"{count} {what}" for count, what in counts if count)
    return f"    {group.name:<10} {'green: ' if group.is_green else ''}{told}"


def row_of(kit: Kit, status: Status, name: str) -> str:
    operation = next((each for each in kit.operations if each.name == name), None)
    file = (place_of(kit, operation) if operation
            else kit.places[name].file.replace("NAME", status.name))
    number = f"place {status.marked[name]}" if status.marked.get(name) else ""
    state = status.states.get(name, SIMULATED if is_simulated(kit, name) else SKELETON)
    return f"    {state:<10} {name:<30} {file:<12} {number}".rstrip()


def as_text(kit: Kit, status: Status) -> str:
    simulated = status.simulated(kit)
    lines = [f"{status.name}: {status.count(WRITTEN)} of"
             f" {len(kit.operations) - status.count(UNCLAIMED)} operations written"
             + (f", {status.filled} of {number(status.places, 'place', 'places')} filled in"
                if status.places and not simulated else "")
             + (f", {len(simulated)} places still simulated" if simulated else "")]
    for name, group in kit.groups.items():
        members = [each for each in kit.operations if each.group == name]
        unused = all(status.states[each.name] == UNCLAIMED for each in members)
        todo = todo_in(kit, name, status.states, status.marked)
        waiting = 0 if status.suite is None else status.suite.waits.get(name, 0)
        lines.append(f"  {group['title']}"
                     f"{'' if todo else ': not claimed' if unused else ': done'}"
                     + (f", and {number(waiting, 'case waits', 'cases wait')} for it"
                        if waiting else ""))
        lines += [row_of(kit, status, each) for each in todo]
    if status.suite is not None:
        lines.append(f"  the suite on {status.suite.adapter}, {status.suite.date}:")
        lines += [group_text(each) for each in status.suite.groups]
    if status.contract != status.wanted_contract:
        lines.append(f"  written for version {status.contract} of the contract, which is at"
                     f" {status.wanted_contract}")
    claimed = [name for name, on in status.claims.items() if on]
    unclaimed = [name for name, on in status.claims.items() if not on]
    lines.append(f"  claimed:     {', '.join(claimed) or 'nothing'}")
    lines.append(f"  not claimed: {', '.join(unclaimed) or 'nothing'}")
    lines.append(f"next: {status.next_step}")
    return "\n".join(lines)
