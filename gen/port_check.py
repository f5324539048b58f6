# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What port.toml says, held against the port's code, its waivers, dat.conf and results of the suite."""

import dataclasses
import datetime
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator

import port_lock
import port_status
import port_toml
import scorecard
from port_toml import nearest
from skeleton import MARK, Kit, pkg_config_folder

ERROR, WARNING = "error", "warning"
WAIVER_KEYS = {"case": str, "reason": str, "failure": str, "link": str, "until": str, "flaky": bool,
               "kernel": str}
KERNELS = re.compile(r"(<|>=)[0-9]{1,6}(\.[0-9]{1,6}){0,3}")  # versions as the suite reads them
SECONDS = 60  # that the suite may take to list its cases


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something that is not as it should be."""

    path: pathlib.Path
    line: int | None
    cause: str
    severity: str = ERROR

    def __str__(self) -> str:
        where = f"{shown(self.path)}:{self.line}" if self.line else shown(self.path)
        return f"{where}: {self.severity}: {self.cause}"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """All that was found, and what could not be judged."""

    name: str
    folder: pathlib.Path
    findings: list[Finding]
    not_judged: list[str]

    def count(self, severity: str) -> int:
        return sum(each.severity == severity for each in self.findings)


@dataclasses.dataclass(frozen=True)
class Given:
    """The arguments of the command line."""

    dat_conf: pathlib.Path | None = None
    results: tuple[pathlib.Path, ...] = ()
    today: str = dataclasses.field(default_factory=lambda: datetime.date.today().isoformat())


class Examination:
    """A port that is being judged: its known facts, and the findings so far."""

    def __init__(self, kit: Kit, folder: pathlib.Path, given: Given,
                 instead: dict[pathlib.Path, str] | None = None) -> None:
        """`instead` has texts, by other paths, for files of the folder with these names."""
        self.kit, self.folder, self.given = kit, folder, given
        instead = instead or {}
        self.texts = {path: text for path, text in port_status.texts_of(folder).items()
                      if path not in {folder / each.name for each in instead}}
        self.texts |= {path: text for path, text in instead.items()
                       if path.suffix in port_status.SOURCES}
        self.declared = port_status.declared_in(self.texts)
        self.inherited = port_status.inherited(kit, self.texts)
        self.not_judged: list[str] = []
        profile = next((path for path in instead if path.name == "port.toml"), None)
        self.file, self.told = (port_toml.load(folder / "port.toml") if profile is None
                                else port_toml.parsed(profile, instead[profile]))
        tables = {name: self.told.get(name, {}) for name in port_toml.TABLES}
        self.tables: dict[str, dict] = {
            name: values if isinstance(values, dict) else {} for name, values in tables.items()}
        name = self.tables["port"].get("name")
        self.name = name if isinstance(name, str) else folder.resolve().name
        self.claimed = [feature for feature in kit.header.features
                        if self.tables["features"].get(feature) is True]
        self.adapters = {name: parameters for name, parameters in self.tables["adapters"].items()
                         if isinstance(parameters, str)}
        self.waivers = {name: path for name, path in self.tables["waivers"].items()
                        if isinstance(path, str)}

    @property
    def in_tree(self) -> bool:
        return (not self.kit.is_installed
                and self.folder.resolve().parent == self.kit.transports)

    def at(self, table: str, key: str, cause: str, severity: str = ERROR) -> Finding:
        """A finding at a key of port.toml."""
        return Finding(self.file.path, port_toml.line_of(self.file.lines, table, key), cause,
                       severity)

    def run(self) -> Iterator[Finding]:
        """Runs one part after another; a file that one part cannot read does not end the others."""
        for part in (self.profile, self.names, self.version, self.features, self.operations,
                     self.stubs, self.all_waivers, self.dat_conf,
                     *(functools.partial(self.results, path) for path in self.given.results)):
            try:
                yield from part()
            except port_toml.ProfileError as fault:
                yield from of_profile([fault])

    def profile(self) -> Iterator[Finding]:
        yield from of_profile(port_toml.faults(self.file, self.told))
        if self.told.get("adapters", {}) == {}:
            yield self.at("adapters", "", f"[adapters] is empty, so nothing can be opened: add"
                                          f" {self.name}-lo = \"ia_params\"")

    # ------------------------------------------------------------------------ name and contract

    def names(self) -> Iterator[Finding]:
        built_as = self.built_as()
        if built_as is not None:
            yield from of_profile(port_toml.name_faults(self.file, self.name, built_as))
        spaces = [(path, number, found[1]) for path, text in self.texts.items()
                  for number, line in enumerate(text.split("\n"), 1)
                  if (found := re.match(r"\s*namespace dapl::(\w+)", line))]
        if spaces and not any(space in (self.name, "DAPL_TRANSPORT") for *_, space in spaces):
            path, number, space = spaces[0]
            yield Finding(path, number, f"the namespace is dapl::{space}, but the name in port.toml"
                                        f" is '{self.name}': call it dapl::{self.name}")
        if self.in_tree and self.folder.name not in self.kit.ports():
            yield Finding(self.kit.list_path, None, f"'{self.folder.name}' is not in the list of"
                                                    " ports, so it is not built: add a line")

    def built_as(self) -> str | None:
        """The name by which the build has the port; None where it cannot be told."""
        if self.in_tree:
            return self.folder.resolve().name
        try:
            text = (self.folder / "meson.build").read_text(errors="replace")
        except OSError:
            return None
        found = re.search(r"^port = '(\w+)'", text, re.M)
        return found[1] if found else None

    def version(self) -> Iterator[Finding]:
        wanted = self.kit.header.version
        told = self.tables["port"].get("contract")
        if type(told) is int:
            yield from of_profile(port_toml.contract_faults(self.file, told, wanted))
        for path, text in self.texts.items():
            code = port_status.without_comments(text)
            for found in re.finditer(r"DAPLS_IB_VERSION\s*==\s*(\d+)", code):
                if int(found[1]) != wanted:
                    yield Finding(path, code.count("\n", 0, found.start()) + 1,
                                  f"asserts version {found[1]} of the contract, which is at"
                                  f" {wanted}: see its change log in"
                                  f" {shown(self.kit.header_path)}")

    # ------------------------------------------------------------------- features and operations

    def features(self) -> Iterator[Finding]:
        yield from of_profile(port_toml.feature_faults(self.file, self.tables["features"],
                                                       self.tables["own_features"],
                                                       list(self.kit.header.features)))
        for needed, feature in port_toml.needs(self.kit.header_path):
            if feature in self.claimed and needed not in self.claimed:
                yield self.at("features", feature, f"{feature} needs {needed}, which is not"
                                                   f" claimed: claim it too, or neither")
        if self.texts and not any(re.search(r"\bclaims\s*[={]\s*port_features\b", text)
                                  for text in self.texts.values()):
            path = next(iter(self.texts))
            path = next((each for each in self.texts if each.name == "port.hpp"), path)
            yield Finding(path, None, "transport does not take what port.toml claims: add"
                                      " static constexpr features claims = port_features;")

    def operations(self) -> Iterator[Finding]:
        marks = {name: (path, line) for path, text in self.texts.items()
                 for name, _, line in port_status.marks_in(self.kit, text)}
        for each in self.kit.operations:
            claims = [feature for feature in each.features if feature in self.claimed]
            own = self.declared.get(each.name)
            lacks = own is None and each.name not in self.inherited
            if claims and each.name in marks:
                yield Finding(*marks[each.name],
                              f"{claims[0]} is claimed, but {each.name} is still to be written:"
                              f" write it, or say {claims[0]} = false in port.toml")
            elif claims and lacks:
                yield self.at("features", claims[0],
                              f"{claims[0]} is claimed, but the port has no {each.name} of its own"
                              " and inherits the one that refuses: write it, or say"
                              f" {claims[0]} = false")
            elif each.required and lacks:
                yield self.at("port", "", f"the port has no {each.name}, which every port needs"
                                          f" ({each.brief}): see docs/contract.md")
            elif own is not None and each.features and not claims:
                yield Finding(*own, f"{each.name} is written, but nothing that needs it is claimed,"
                                    f" so it is not used: say {each.features[0]} = true in"
                                    " port.toml when it works", WARNING)
        known = {each.name for each in self.kit.operations}
        for name, place in self.declared.items():
            if name not in known:
                yield Finding(*place, f"the contract has no {name}, so nothing calls it"
                                      f"{nearest(name, known)}")

    def stubs(self) -> Iterator[Finding]:
        """Places whose marks are gone, and whose functions are still those of the skeleton."""
        if not (self.folder / port_lock.NAME).is_file():
            return
        begun = port_lock.read(self.folder / port_lock.NAME).files
        open_ones = {name for text in self.texts.values()
                     for name, *_ in port_status.marks_in(self.kit, text)}
        for skeleton_text in begun.values():
            for name, code in port_status.functions_in(self.kit, skeleton_text):
                place = None if name in open_ones else port_status.found_in(self.texts, code)
                if place is None:
                    continue
                refuses = re.search(r"\b(not_supported|ENOTSUP)\b", code)
                yield Finding(*place, f"{name} is still as dapl-port wrote it, but its {MARK} is gone:"
                              + (" write it, or put the line back" if refuses else " write it, or say"
                                 " in a comment inside it why it is right"),
                              ERROR if refuses else WARNING)

    # ------------------------------------------------------------------------------------ waivers

    def all_waivers(self) -> Iterator[Finding]:
        cases: list[str] | None = []
        if self.waivers:
            cases = known_cases(self.kit)
            if cases is None:
                self.not_judged.append("whether waivers name cases that there are: the kit has no"
                                       " dapl-conformance that lists them")
        for adapter, name in self.waivers.items():
            path = self.folder / name
            if not os.path.isfile(path):  # a name that is no path at all counts, too
                yield self.at("waivers", adapter, f"there is no file {name} in {shown(self.folder)}")
            else:
                yield from of_profile(waiver_faults(path, cases, self.given.today))
        for path in sorted(self.folder.glob("waivers*.json")):
            if path.name not in self.waivers.values():
                yield Finding(path, None, "no adapter has these waivers, so they are not used: name"
                                          f" the file in [waivers], adapter = \"{path.name}\"",
                              WARNING)

    # ----------------------------------------------------------------------------------- dat.conf

    def dat_conf(self) -> Iterator[Finding]:
        path = self.given.dat_conf or self.dat_conf_of_a_build()
        if path is None:
            self.not_judged.append("whether dat.conf has the adapters: build the port, or say"
                                   " --dat-conf FILE")
            return
        lines = dat_conf_lines(path)
        if self.given.dat_conf is None and not any(map(self.is_ours, lines)):
            self.not_judged.append(f"whether dat.conf has the adapters: {shown(path)} has nothing of"
                                   " this port: build it, or say --dat-conf FILE")
            return
        for name, parameters in self.adapters.items():
            yield from self.adapter(name, parameters, path, lines)

    def is_ours(self, line: list[str]) -> bool:
        return line[0] in self.adapters or self.is_our_library(line[4])

    def is_our_library(self, path: str) -> bool:
        return pathlib.Path(path).name.startswith(f"libdapl-{self.name}.so")

    def adapter(self, name: str, parameters: str, path: pathlib.Path,
                lines: list[list[str]]) -> Iterator[Finding]:
        ours = [line for line in lines if line[0] == name and line[1].startswith("u2")]
        other = next((line for line in ours if not self.is_our_library(line[4])), None)
        changed = next((line for line in ours if line[6] != parameters), None)
        if not ours:
            yield self.at("adapters", name, f"{shown(path)} has no '{name}': build dat.conf anew,"
                          f" with this port{nearest(name, {line[0] for line in lines})}")
        elif other:
            yield self.at("adapters", name, f"in {shown(path)} '{name}' is an adapter of"
                          f" {pathlib.Path(other[4]).name}: call this one otherwise")
        elif changed:
            yield self.at("adapters", name, f"'{name}' has the parameters '{parameters}' here,"
                          f" '{changed[6]}' in {shown(path)}: build dat.conf anew")

    def dat_conf_of_a_build(self) -> pathlib.Path | None:
        """The dat.conf of `meson devenv`, or of the build folder that documents use."""
        named = os.environ.get("DAT_OVERRIDE")
        places = [pathlib.Path(named)] if named else []
        places.append(self.kit.root / "build/transports/dat.conf" if self.in_tree
                      else self.folder / "build/dat.conf")
        return next((each for each in places if each.is_file()), None)

    # ------------------------------------------------------------------------------------ results

    def results(self, path: pathlib.Path) -> Iterator[Finding]:
        yield from Results(self, path).findings()


class Results:
    """A scorecard that dapl-conformance --json has written."""

    def __init__(self, of: Examination, path: pathlib.Path) -> None:
        self.of, self.path = of, path
        self.text = port_toml.text_of(path)
        self.told, self.cases = scorecard.parsed(path, self.text)

    def at(self, text: str, cause: str) -> Finding:
        place = self.text.find(text)
        return Finding(self.path, self.text.count("\n", 0, max(place, 0)) + 1, cause)

    def findings(self) -> Iterator[Finding]:
        adapter = str(self.told.get("adapter"))
        if not any(re.fullmatch(re.escape(name) + r"(-plain|-without-\w+)?", adapter)
                   for name in self.of.adapters):
            yield self.at('"adapter"', f"these are results of '{adapter}', which is no adapter of"
                                       f" {self.of.name}")
            return
        device = self.told.get("device")
        if isinstance(device, dict) and device.get("judged") is False:
            yield self.at('"judged"', f"{adapter} was not judged:"
                                      f" {device.get('reason', 'it cannot be opened')}")
            return
        for each in self.cases:
            if each.get("outcome") in scorecard.FAILURES:
                yield self.at(f'"{each.get("rule")}"', f"{each.get('rule')} on {adapter}:"
                                                       f" {each['outcome']}: {each.get('reason')}")
        if adapter in self.of.adapters:  # the others have features switched off
            yield from self.silent()

    def silent(self) -> Iterator[Finding]:
        """Features of which the suite saw nothing."""
        for feature in self.of.claimed:
            about = [each for each in self.cases if (feature,) in scorecard.needs_of(each)]
            if about and all(each.get("outcome") == "not claimed" for each in about):
                first = about[0]
                yield self.of.at("features", feature,
                                 f"{feature} is claimed, but in {shown(self.path)} each of its"
                                 f" {len(about)} cases is \"not claimed\"; {first.get('rule')}:"
                                 f" {first.get('reason')}", WARNING)


# -------------------------------------------------------------------------------------- waivers


def entries_of(path: pathlib.Path, text: str) -> list[tuple[int, object]]:
    """The members of a JSON array, each with the line on which it begins."""
    all_of_it = scorecard.json_of(path, text)
    if not isinstance(all_of_it, list):
        raise port_toml.ProfileError("waivers are a JSON array of objects", path, 1)
    place = text.index("[") + 1
    found = []
    for _ in all_of_it:
        place = re.compile(r"[\s,]*").match(text, place).end()
        value, end = json.JSONDecoder().raw_decode(text, place)
        found.append((text.count("\n", 0, place) + 1, value))
        place = end
    return found


def waiver_faults(path: pathlib.Path, cases: list[str] | None,
                  today: str) -> Iterator[port_toml.ProfileError]:
    """Why the suite refuses a file of waivers, or will not heed a waiver in it."""
    seen: dict[str, int] = {}
    try:
        entries = entries_of(path, port_toml.text_of(path))
    except port_toml.ProfileError as fault:
        yield fault
        return
    for line, entry in entries:
        def fault(cause: str, line: int = line) -> port_toml.ProfileError:
            return port_toml.ProfileError(cause, path, line)

        if not isinstance(entry, dict):
            yield fault("a waiver is an object with case, reason, failure, link and until")
            continue
        yield from map(fault, key_faults(entry))
        case, until = entry.get("case"), entry.get("until")
        if not isinstance(case, str):
            continue
        if cases is not None and case not in cases:
            yield fault(f"the suite has no case '{case}': dapl-conformance --list has them"
                        f"{nearest(case, cases)}")
        if case in seen:
            yield fault(f"{case} is waived twice, also on line {seen[case]}: remove one")
        seen.setdefault(case, line)
        kernel = entry.get("kernel")
        if isinstance(kernel, str) and not all(map(KERNELS.fullmatch, kernel.split())):
            yield fault(f"\"kernel\" shall be kernels as '>=6.1 <7'; '{kernel}' is none")
        if isinstance(until, str) and not is_date(until):
            yield fault(f"\"until\" shall be a date as 2027-01-31; '{until}' is none")
        elif isinstance(until, str) and until < today:
            yield fault(f"the waiver of {case} ended on {until}: mend the port, or say why it shall"
                        " last longer")


def key_faults(entry: dict) -> Iterator[str]:
    for key, value in entry.items():
        if key not in WAIVER_KEYS:
            yield (f"a waiver has no '{key}'; it has {', '.join(WAIVER_KEYS)}"
                   f"{nearest(key, WAIVER_KEYS)}")
        elif any(type(each) is not WAIVER_KEYS[key] or each == "" for each in told_of(key, value)):
            yield f"\"{key}\" shall be {port_toml.TYPES[WAIVER_KEYS[key]]}"
    optional = {"flaky", "kernel"} | ({"failure"} if entry.get("flaky") is True else set())
    for key in WAIVER_KEYS:
        if key not in entry and key not in optional:
            yield f"the waiver has no \"{key}\""


def told_of(key: str, value: object) -> list:
    """There may be several failures."""
    return value if key == "failure" and isinstance(value, list) and value else [value]


def is_date(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


# ---------------------------------------------------------------------------------- what there is


def known_cases(kit: Kit) -> list[str] | None:
    """The ids of the suite's cases: by its sources, or by the program where there are none."""
    sources = sorted((kit.root / "conformance/cases").glob("*_test.cpp"))
    if sources:
        return [case for path in sources
                for case in re.findall(r'TEST_CASE\(\s*"([A-Z0-9]+-\d+):', path.read_text())]
    program = suite_program(kit)
    if program is None:
        return None
    libraries = pathlib.Path(pkg_config_folder(kit) or "").parent
    path = f"{libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    try:
        told = subprocess.run([program, "--list"], text=True, capture_output=True, check=True,
                              timeout=SECONDS, stdin=subprocess.DEVNULL,
                              env={**os.environ, "LD_LIBRARY_PATH": path}).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return re.findall(r"^([A-Z0-9]+-\d+)\b", told, re.M) or None


def suite_program(kit: Kit) -> str | None:
    """The program in the kit's own prefix, or the one in the shell's path."""
    for prefix in kit.root.parents:
        if (prefix / "bin/dapl-conformance").is_file():
            return str(prefix / "bin/dapl-conformance")
    return shutil.which("dapl-conformance")


def dat_conf_lines(path: pathlib.Path) -> list[list[str]]:
    """The lines that DAT reads: eight fields or more, of which some are quoted."""
    found = []
    for line in port_toml.text_of(path).splitlines():
        try:
            fields = shlex.split(line, comments=True)
        except ValueError:
            continue
        if len(fields) >= 8:
            found.append(fields)
    return found


# ---------------------------------------------------------------------------------------- report


def of_profile(faults: Iterable[port_toml.ProfileError]) -> Iterator[Finding]:
    for each in faults:
        yield Finding(each.path, each.line, each.cause)


def shown(path: pathlib.Path) -> str:
    """A path as an editor started here finds it."""
    here = pathlib.Path.cwd()
    return str(path.absolute().relative_to(here)) if path.absolute().is_relative_to(here) else str(
        path)


def judge(kit: Kit, folder: pathlib.Path, given: Given) -> Verdict:
    """Judges whatever can be read; a file that cannot be read is a finding itself."""
    try:
        examination = Examination(kit, folder, given)
    except port_toml.ProfileError as fault:
        return Verdict(folder.resolve().name, folder, list(of_profile([fault])), [])
    findings = list(dict.fromkeys(examination.run()))
    return Verdict(examination.name, folder, findings, examination.not_judged)


def as_json(verdict: Verdict) -> dict:
    return {
        "name": verdict.name,
        "folder": str(verdict.folder),
        "errors": verdict.count(ERROR),
        "warnings": verdict.count(WARNING),
        "findings": [{"file": shown(each.path), "line": each.line, "severity": each.severity,
                      "text": each.cause} for each in verdict.findings],
        "not_judged": verdict.not_judged,
    }


def number(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"


def as_text(verdict: Verdict) -> str:
    lines = [str(each) for each in verdict.findings]
    lines += [f"{verdict.name}: not judged: {each}" for each in verdict.not_judged]
    lines.append(f"{verdict.name}: {number(verdict.count(ERROR), 'error')},"
                 f" {number(verdict.count(WARNING), 'warning')}")
    return "\n".join(lines)
