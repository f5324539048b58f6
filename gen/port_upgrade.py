# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Upgrades a port after the contract or its skeleton has moved.

The skeleton as it was and as it is now are merged with the author's files, three ways, into a
folder beside them. The contract's demands are then looked for in the merged files, so that nothing
is asked for that the merge has done.
"""

import dataclasses
import pathlib
import re
import subprocess
import tempfile
from collections.abc import Iterator

import contract
import port_check
import port_lock
import port_status
import port_toml
import skeleton
from port_check import Finding, shown
from port_lock import Lock
from skeleton import MARK, Kit, PortError

# What became of a file.
TAKEN = "taken"  # the new text, since the author had not changed the old one
NEW = "new"
MERGED = "merged"
CONFLICTS = "conflicts"
KEPT = "kept"  # the author's; nothing was merged
WORDS = {
    TAKEN: "the new one: you had not changed yours", NEW: "was not there before",
    MERGED: "your changes and the kit's", KEPT: "yours is left alone",
}
OWN_PROSE = "README.md"  # authors rewrite it, so that merging it says nothing
CONFLICT = re.compile(r"^<{7} ", re.M)
MARK_LINE = re.compile(rf"(?m)^([ \t]*(?://|#) ){re.escape(MARK)} (?:\d+ )?([a-z]\w*)(:.*\r?\n)")
VERSION_LINE = re.compile(r"(?m)^contract = \d+")  # line of port.toml, beside lines that each
                                                   # author changes
SCOPES = re.compile(r"\b(?:types|transport|inherited|core|std)::|\[\[\w+\]\]|\btypename\b")


@dataclasses.dataclass(frozen=True)
class Merge:
    """A file of the skeleton."""

    name: str
    state: str
    text: str | None = None  # that is put beside the author's; None: nothing is
    why: str = ""

    @property
    def conflicts(self) -> list[int]:
        """The lines on which they begin."""
        text = self.text or ""
        return [text.count("\n", 0, each.start()) + 1 for each in CONFLICT.finditer(text)]


@dataclasses.dataclass(frozen=True)
class Upgrade:
    """The changes to be made to a port, and the changes made."""

    name: str
    folder: pathlib.Path
    version: int  # that the port was written for
    wanted: int
    changes: dict[int, contract.Change]  # change of each version
    merges: list[Merge]
    not_merged: str  # why there is no old skeleton to merge with; empty where there is
    lock: Lock | None  # lock of the new skeleton
    findings: list[Finding]  # work that is left for the author
    in_tree: bool

    @property
    def beside(self) -> pathlib.Path:
        return self.folder / port_status.UPGRADE

    @property
    def files(self) -> dict[str, str]:
        """The files to write there, the lock of the new skeleton included."""
        files = {each.name: each.text for each in self.merges if each.text is not None}
        if self.lock is not None and self.merges:
            files[port_lock.NAME] = port_lock.as_text(self.lock)
        return files

    @property
    def conflicts(self) -> list[tuple[pathlib.Path, int]]:
        return [(self.beside / each.name, line) for each in self.merges for line in each.conflicts]

    @property
    def is_done(self) -> bool:
        """Whether nothing is left for the author but to take over the merged files."""
        return not self.conflicts and not self.findings


# -------------------------------------------------------------------------------------- merging


def open_places(texts: list[str]) -> set[str]:
    return {each[2] for text in texts for each in MARK_LINE.finditer(text)}


def aligned(text: str, open_ones: set[str], old: set[str], numbers: dict[str, str]) -> str:
    """A text in which marks tell nothing apart but merged places: marks of places that the author
    has filled in are gone from the skeletons, too, and the others have the new numbers."""
    def line(mark: re.Match[str]) -> str:
        name = mark[2]
        if name in old and name not in open_ones:
            return ""
        number = numbers.get(name)
        return f"{mark[1]}{MARK} {number} {name}{mark[3]}" if number else mark[0]

    return MARK_LINE.sub(line, text)


def with_version(name: str, text: str, version: int) -> str:
    return VERSION_LINE.sub(f"contract = {version}", text) if name == "port.toml" else text


def three_ways(yours: str, base: str, new: str, labels: tuple[str, str]) -> str:
    with tempfile.TemporaryDirectory() as beside:
        paths = [pathlib.Path(beside) / each for each in ("yours", "base", "new")]
        for path, text in zip(paths, (yours, base, new)):
            path.write_bytes(text.encode(errors="surrogateescape"))
        try:
            done = subprocess.run(
                ["git", "merge-file", "-p", "--diff3", "-L", "yours", "-L", labels[0], "-L",
                 labels[1], *map(str, paths)], capture_output=True, check=False)
        except FileNotFoundError:
            raise PortError("git is missing, whose merge-file merges the skeletons") from None
    if done.returncode > 127:
        raise PortError(f"git merge-file: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode(errors="surrogateescape")


def read_text(path: pathlib.Path) -> str | None:
    try:
        return path.read_bytes().decode(errors="surrogateescape")
    except FileNotFoundError:
        return None


class Merger:
    """The skeletons of two versions, and the author's files."""

    def __init__(self, folder: pathlib.Path, old: Lock, new: Lock) -> None:
        self.folder = folder
        self.yours = {name: read_text(folder / name) for name in {**old.files, **new.files}}
        everything = [*port_status.texts_of(folder).values(),
                      *(text for text in self.yours.values() if text is not None)]
        open_ones, old_ones = open_places(everything), open_places(list(old.files.values()))
        numbers = {each[1]: each[0] for text in new.files.values()
                   for each in re.findall(re.escape(MARK) + r" (\d+) ([a-z]\w*):", text)}
        self.old, self.new, self.renumbered = (
            {name: aligned(with_version(name, text, new.contract), open_ones, old_ones, numbers)
             for name, text in files.items() if text is not None}
            for files in (old.files, new.files, self.yours))
        self.labels = (f"skeleton of version {old.contract}, as it was",
                       f"skeleton of version {new.contract}")

    def merges(self) -> Iterator[Merge]:
        for name in sorted({*self.old, *self.new}):
            merge = self.merge(name)
            if merge is not None:
                yield merge

    def merge(self, name: str) -> Merge | None:
        """None where nothing has to be said."""
        old, new, yours = self.old.get(name), self.new.get(name), self.renumbered.get(name)
        if new == old or (yours is None and new is None):
            return None if yours == self.yours[name] else Merge(name, MERGED, yours)
        if new is None:
            return Merge(name, KEPT, why="the skeleton has it no longer" + (
                "; you had not changed it" if yours == old else ""))
        if yours is None:
            return Merge(name, NEW, new) if old is None else Merge(
                name, KEPT, why="you have deleted it; the skeleton's has changed")
        if "\r\n" in yours:
            old, new = (text and text.replace("\n", "\r\n") for text in (old, new))
        if yours == old:
            return Merge(name, TAKEN, new)
        if name == OWN_PROSE:
            return Merge(name, KEPT, why="you have rewritten it; the skeleton's has changed")
        text = three_ways(yours, old or "", new, self.labels)
        if text == self.yours[name]:
            return None
        return Merge(name, CONFLICTS if CONFLICT.search(text) else MERGED, text)


# --------------------------------------------------------------------------------- the contract


def signature_in(code: str, start: int) -> str | None:
    """The signature of the declaration that begins there; None if it cannot be told."""
    try:
        end = contract.up_to_closing(code, code.index("(", start))
        returns, _, parameters = contract.declaration(SCOPES.sub("", code[start:end]))
    except (contract.ContractError, ValueError):
        return None
    return f"{returns} ({', '.join(contract.without_name(each) for each in parameters)})"


def signatures(kit: Kit, texts: dict[pathlib.Path, str]) -> Iterator[Finding]:
    """Operations that are declared otherwise than the contract has them."""
    wanted = {each.name: each.declared.signature for each in kit.operations}
    for path, text in texts.items():
        code = port_status.without_comments(text)
        for found in re.finditer(r"\bstatic\b[^;{}()]*?\b(dapls_ib_\w+)\s*\(", code):
            has, shall = signature_in(code, found.start()), wanted.get(found[1])
            if has and shall and has != SCOPES.sub("", shall):
                yield Finding(path, code.count("\n", 0, found.start(1)) + 1,
                              f"{found[1]} is {has}, and in the contract {shall}: change it here"
                              " and where it is defined")


def left_to_adapt(kit: Kit, folder: pathlib.Path, merges: list[Merge]) -> list[Finding]:
    """What the contract wants that is not in the files as far as they could be merged. Of a file with
    conflicts the author's own text is judged."""
    beside = folder / port_status.UPGRADE
    instead = {beside / each.name: each.text for each in merges
               if each.text is not None and not each.conflicts}
    examination = port_check.Examination(kit, folder, port_check.Given(), instead)
    found = [each for each in (*examination.operations(), *examination.features())
             if each.severity == port_check.ERROR]
    last = f"say {kit.header.version} here, when the rest is adapted"
    return [*found, *signatures(kit, examination.texts),
            *(dataclasses.replace(each, cause=last) for each in examination.version())]


# -------------------------------------------------------------------------------------- upgrade


def old_lock(folder: pathlib.Path, base: pathlib.Path | None) -> tuple[Lock | None, str]:
    """What the port began as, or why that is not known."""
    if (folder / port_lock.NAME).is_file():
        if base is not None:
            raise PortError(f"{folder} has a {port_lock.NAME}, which says what it began as: leave"
                            " out --base")
        return port_lock.read(folder / port_lock.NAME), ""
    if base is not None:
        return port_lock.guessed(base), ""
    return None, (f"there is no {port_lock.NAME}. If dapl-port made the port before it wrote such a"
                  " file, name a folder with the port as it was then, from its first commit: --base DIR")


def new_lock(kit: Kit, old: Lock) -> Lock:
    """The lock of the skeleton that these answers make now."""
    claims = tuple(each for each in old.port.claims if each in kit.header.features)
    port = dataclasses.replace(old.port, claims=claims)
    skeleton.check_port(kit, port)
    return port_lock.lock_of(kit, port, old.alone)


def conflicts_in(folder: pathlib.Path) -> list[str]:
    """The conflicts of an earlier upgrade that the author has not resolved."""
    found = []
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        merge = Merge(path.name, CONFLICTS, read_text(path))
        found += [f"{shown(path)}:{line}" for line in merge.conflicts]
    return found


def check_no_other(beside: pathlib.Path) -> None:
    if not beside.exists():
        return
    left = conflicts_in(beside)
    what = f", with conflicts at {', '.join(left)}" if left else ""
    raise PortError(f"there is {shown(beside)} from an earlier upgrade{what}: take it over or not,"
                    " and delete it")


def upgrade_of(kit: Kit, folder: pathlib.Path, base: pathlib.Path | None) -> Upgrade:
    profile = port_toml.read(folder / "port.toml")
    version, wanted = profile.contract, kit.header.version
    if version > wanted:
        raise PortError(f"{profile.name} was written for version {version} of the contract, and this"
                        f" kit has version {wanted}: upgrade needs a newer kit")
    check_no_other(folder / port_status.UPGRADE)
    old, why = old_lock(folder, base)
    new = None if old is None else new_lock(kit, old)
    merges = [] if old is None or new is None else list(Merger(folder, old, new).merges())
    changes = {number: change for number, change in contract.change_log(kit.header_path).items()
               if version < number <= wanted}
    findings = left_to_adapt(kit, folder, merges) if version != wanted else []
    return Upgrade(profile.name, folder, version, wanted, changes, merges, why, new, findings,
                   not kit.is_installed and folder.resolve().parent == kit.transports)


def write(upgrade: Upgrade) -> None:
    if upgrade.files:
        skeleton.write_folder(upgrade.beside, {
            name: text.encode(errors="surrogateescape") for name, text in upgrade.files.items()})


# ---------------------------------------------------------------------------------------- report


def next_steps(upgrade: Upgrade) -> list[str]:
    steps = []
    beside, folder = shown(upgrade.beside), shown(upgrade.folder)
    which = upgrade.name if upgrade.in_tree else f"--directory {folder}"
    if upgrade.conflicts:
        steps.append("resolve the conflicts, in the files in which they are: between the marks are"
                     " your text, that of the old skeleton, and that of the new one")
    if upgrade.files:
        steps.append(f"compare, and take over what you want: diff -ru {folder} {beside};"
                     f" cp {beside}/* {folder}/; rm -r {beside}")
        steps.append(f"{port_lock.NAME} has to be taken over in any case: from then on the new"
                     " skeleton is the old one")
    if upgrade.findings:
        steps.append("adapt the operations named above; docs/contract.md has each operation")
    judges = [case for each in upgrade.changes.values() for text in each.obliges
              for case in contract.cases_in(text)]
    if steps:
        steps.append(f"build; dapl-port check {which}; dapl-port status {which}; the suite" + (
            f", whose cases {', '.join(judges)} see what no compiler does" if judges else ""))
    return steps


def verdict(upgrade: Upgrade) -> str:
    if not upgrade.is_done:
        return (f"not done, {port_check.number(len(upgrade.conflicts), 'conflict')} and"
                f" {port_check.number(len(upgrade.findings), 'place')} to adapt are left")
    if upgrade.files:
        return f"all is merged, in {shown(upgrade.beside)}, and waits to be taken over"
    return "nothing to do"


def place_of(finding: Finding) -> str:
    return f"{shown(finding.path)}:{finding.line}" if finding.line else shown(finding.path)


def file_lines(upgrade: Upgrade) -> Iterator[str]:
    for each in upgrade.merges:
        if not each.conflicts:
            yield f"  {each.state:<8} {each.name}: {each.why or WORDS[each.state]}"
    for path, line in upgrade.conflicts:
        yield f"  {shown(path)}:{line}: conflict"


def as_text(upgrade: Upgrade) -> str:
    name = upgrade.name
    lines = [f"{name}: version {upgrade.version} of the contract; the kit has {upgrade.wanted}"]
    for number, change in upgrade.changes.items():
        lines += [f"version {number} of the contract:",
                  *(f"  {line}" for line in skeleton.lines(change.text))]
        if change.obliges:
            lines.append("  which obliges to what no compiler asks for:")
        for each in change.obliges:
            first, *more = skeleton.lines(each)
            lines += [f"  - {first}", *(f"    {line}" for line in more)]
    if upgrade.not_merged:
        lines += ["skeleton: not merged", *(f"  {line}"
                                            for line in skeleton.lines(upgrade.not_merged))]
    elif upgrade.merges:
        lines += [f"skeleton, in {shown(upgrade.beside)}:", *file_lines(upgrade)]
    else:
        lines.append("skeleton: as it was")
    if upgrade.findings:
        lines += ["to adapt:", *(f"  {place_of(each)}: {each.cause}" for each in upgrade.findings)]
    steps = next_steps(upgrade)
    if steps:
        lines += ["next:", *(f"  {place}. {text}" for place, text in enumerate(steps, 1))]
    return "\n".join([*lines, f"{name}: {verdict(upgrade)}"])


def as_json(upgrade: Upgrade) -> dict:
    return {
        "name": upgrade.name,
        "folder": str(upgrade.folder),
        "contract": {"port": upgrade.version, "kit": upgrade.wanted},
        "changes": [{"version": number, "text": change.text, "obliges": [
            {"text": each, "cases": contract.cases_in(each)} for each in change.obliges]}
            for number, change in upgrade.changes.items()],
        "merged_in": str(upgrade.beside) if upgrade.files else None,
        "files": [{"file": each.name, "state": each.state, "conflicts": each.conflicts,
                   "why": each.why or WORDS.get(each.state, "")} for each in upgrade.merges],
        "not_merged": upgrade.not_merged or None,
        "adapt": [{"file": shown(each.path), "line": each.line, "text": each.cause}
                  for each in upgrade.findings],
        "next": next_steps(upgrade),
        "done": upgrade.is_done,
    }
