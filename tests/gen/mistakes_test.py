#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Each mistake of mistakes.toml is refused by the build, or turns a case red that names it.

A mistake is made in a copy of a whole port, which is compiled and linked with the common layer that
the build has. A refusal comes with one line, before anything else that the compiler says; a case
fails with a text that leads to the mistake, and does not hang. Without a mistake all of these cases
pass. With --sample some of the mistakes are made, by a seed that is printed; --explore makes those
that match and lists all cases of the suite that turn red.
"""

import argparse
import concurrent.futures
import dataclasses
import fnmatch
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

sys.dont_write_bytecode = True

from trees import ROOT  # noqa: E402

TABLE = pathlib.Path(__file__).with_name("mistakes.toml")
KEYS = {"name", "believed", "port", "change", "build", "check", "cases", "says", "patience"}
CHANGE_KEYS = {"file", "old", "new"}
LEAST = 30  # mistakes that the table has
LINES_BEFORE = 12  # limit on lines of a compiler before the line that counts: how it came there
SECONDS = 300  # time limit of one program
FOLDERS = {"memory": ROOT / "tests/memory_port", "soft": ROOT / "transports/soft"}
SOURCES = ("*.hpp", "*.cpp", "port.toml", "waivers.json")
ENDS = ("crashes", "hangs", "the process exits")  # how the runner says that a case did not end well


@dataclasses.dataclass(frozen=True)
class Change:
    old: str
    new: str
    file: str = "port.cpp"


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A mistake. One of build, check and cases says where it is seen, and `says` with which words.
    """

    name: str
    believed: str
    changes: tuple[Change, ...]
    port: str = "memory"
    build: str = ""
    check: str = ""
    cases: tuple[str, ...] = ()
    says: str = ""
    patience: float = 5


@dataclasses.dataclass(frozen=True)
class Port:
    """A whole port, and its objects compiled already."""

    name: str
    folder: pathlib.Path
    promises: tuple[str, ...]
    common: pathlib.Path

    @property
    def adapter(self) -> str:
        return f"{self.name}-lo"

    def sources(self) -> list[pathlib.Path]:
        made_before = {"device.cpp"}
        return [path for path in sorted(self.folder.glob("*.cpp")) if path.name not in made_before]


class Refused(Exception):
    """By the generator, the compiler or the linker."""


def complaint(said: str) -> str:
    """The line with which a refusal begins; before it a compiler says how it came there."""
    lines = said.splitlines()
    for number, line in enumerate(lines):
        if re.search(r"error|undefined reference|port\.toml", line):
            return line if number <= LINES_BEFORE else f"(after {number} lines) {line}"
    return said


class Workshop:
    """Makes ports with mistakes, and has them judged."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.includes = [ROOT / part for part in (
            "include", "common", "contract", "osd", f"osd/{sys.platform}", "port_support",
            "transports/soft/engine")] + [options.build_root / each for each in ("gen", "contract")]

    def run(self, *command: object, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(word) for word in command], text=True, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=SECONDS,
                              env={**os.environ, "LC_ALL": "C", **environment})

    def must(self, *command: object) -> None:
        done = self.run(*command)
        if done.returncode != 0:
            raise Refused(done.stdout)

    def compile(self, port: Port, folder: pathlib.Path, text: str, *more: object) -> None:
        source = folder / "all.cpp"
        source.write_text(text)
        self.must(*self.options.compiler, f"-DDAPL_TRANSPORT={port.name}", "-fPIC", "-O1",
                  "-fvisibility=hidden", '-DDAPL_PORT_FEATURES="features.hpp"', f"-I{folder}",
                  *(f"-I{each}" for each in self.includes), *more, source)

    def copy(self, port: Port, changes: tuple[Change, ...], folder: pathlib.Path) -> None:
        for pattern in SOURCES:
            for path in port.folder.glob(pattern):
                shutil.copy(path, folder)
        for change in changes:
            path = folder / change.file
            path.write_text(path.read_text().replace(change.old, change.new, 1))

    def build(self, port: Port, changes: tuple[Change, ...], folder: pathlib.Path) -> None:
        """Builds like the port's own build; raises Refused if that fails."""
        self.must(sys.executable, ROOT / "gen/port_features.py", "--contract",
                  ROOT / "contract/dapls_ib.hpp", "--profile", folder / "port.toml",
                  "--port", port.name, "--output", folder / "features.hpp")
        if any(not each.file.endswith(".cpp") for each in changes):
            self.compile(port, folder, '#include "core/transport.hpp"\n', "-fsyntax-only")
        self.compile(port, folder, "".join(f'#include "{path.name}"\n' for path in port.sources()),
                     "-c", "-o", folder / "port.o")
        self.must(*self.options.compiler, "-shared", "-Wl,-z,defs",
                  f"-Wl,--version-script={ROOT}/common/provider.map",
                  f"-Wl,-soname,libdapl-{port.name}.so.2", "-o", self.library(port, folder),
                  folder / "port.o", "-Wl,--whole-archive", port.common, "-Wl,--no-whole-archive",
                  self.options.osd, self.options.libdat2, "-pthread")

    @staticmethod
    def library(port: Port, folder: pathlib.Path) -> pathlib.Path:
        return folder / f"libdapl-{port.name}.so.2"

    def judge(self, port: Port, folder: pathlib.Path, cases: tuple[str, ...],
              patience: float) -> dict[str, dict]:
        """What the suite says of these cases; of all when none is named."""
        self.must(sys.executable, ROOT / "gen/dat_conf.py", "--output", folder / "dat.conf",
                  "--port", folder / "port.toml", self.library(port, folder), " ")
        card = folder / "card.json"
        done = self.run(self.options.conformance, "--ia", port.adapter, "--json", card,
                        "--jobs", self.options.suite_jobs, "--timeout", self.options.case_seconds,
                        "--no-repeat",
                        "--patience", patience, *(f"--promise={each}" for each in port.promises),
                        *(f"--case={each}" for each in cases),
                        DAT_OVERRIDE=str(folder / "dat.conf"),
                        LD_LIBRARY_PATH=str(self.options.libdat2.parent))
        if not card.exists():
            raise Refused(done.stdout)
        told = json.loads(card.read_text())
        if not told["results"]:
            raise Refused(told["device"].get("reason", "") + told["device"].get("output", ""))
        return {each["rule"]: each for each in told["results"]}

    def check(self, folder: pathlib.Path) -> str:
        done = self.run(sys.executable, ROOT / "gen/dapl-port", "check", "--directory", folder,
                        DAPL_CONFORMANCE=str(self.options.conformance))
        return done.stdout.replace(f"{folder}/", "").replace(f"{os.path.relpath(folder)}/", "")


# ------------------------------------------------------------------------------------ the table


def ports(options: argparse.Namespace) -> dict[str, Port]:
    promises = ("acknowledged", "local_protection")  # promises of both ports
    given = dict(each.split("=", 1) for each in options.common)
    return {name: Port(name, FOLDERS[name], promises, pathlib.Path(path))
            for name, path in given.items()}


def read_mistakes(path: pathlib.Path) -> list[Mistake]:
    mistakes = []
    for row in tomllib.loads(path.read_text())["mistake"]:
        name = row.get("name", "?")
        for unknown in sorted(set(row) - KEYS) + sorted(
                key for change in row["change"] for key in set(change) - CHANGE_KEYS):
            sys.exit(f"{path.name}: {name}: unknown key {unknown}")
        if sum(key in row for key in ("build", "check", "cases")) != 1:
            sys.exit(f"{path.name}: {name}: one of build, check and cases says where it is seen")
        if ("cases" in row) != ("says" in row):
            sys.exit(f"{path.name}: {name}: with cases goes says, what they say")
        rest = {key: row[key] for key in row if key not in ("change", "cases")}
        mistakes.append(Mistake(**rest, cases=tuple(row.get("cases", ())),
                                changes=tuple(Change(**each) for each in row["change"])))
    return mistakes


def judge_table(mistakes: list[Mistake]) -> list[str]:
    """The mistakes that cannot be made any more: a port has changed, and the mistake has to follow.
    The ports that are not built are judged, too.
    """
    wrong = [f"{len(mistakes)} mistakes are fewer than {LEAST}"] if len(mistakes) < LEAST else []
    names = [each.name for each in mistakes]
    wrong += [f"two mistakes are called '{name}'" for name in set(names) if names.count(name) > 1]
    for mistake in mistakes:
        texts: dict[str, str] = {}
        for change in mistake.changes:
            path = FOLDERS[mistake.port] / change.file
            text = texts.get(change.file) or (path.read_text() if path.is_file() else "")
            found = text.count(change.old)
            if found != 1:
                wrong.append(f"{mistake.name}: {change.file} of the {mistake.port} port has this"
                             f" {found} times, not once: {change.old.strip()!r}")
            texts[change.file] = text.replace(change.old, change.new, 1)
    return wrong


# ------------------------------------------------------------------------------------- judgement


def told_by(result: dict) -> str:
    """The text of a failed case without its hint, which is equal for all its failures."""
    return "\n".join([result["reason"], *map(str, result.get("further_failures", []))])


def judge_cases(mistake: Mistake, results: dict[str, dict]) -> list[str]:
    wrong = []
    for case in mistake.cases:
        result = results.get(case)
        if result is None:
            wrong.append(f"{case} was not run")
        elif result["outcome"] != "failed":
            wrong.append(f"{case} does not see it, but is {result['outcome']}: {result['reason']}")
        elif result["reason"].startswith(ENDS):
            wrong.append(f"{case} {result['reason']}")
        elif not re.search(mistake.says, told_by(result)):
            wrong.append(f"{case} does not name it, but says: {told_by(result)}")
    return wrong


def judge(shop: Workshop, port: Port, mistake: Mistake, folder: pathlib.Path) -> list[str]:
    """The differences from the table."""
    try:
        shop.copy(port, mistake.changes, folder)
        if mistake.check:
            told = shop.check(folder).splitlines()
            seen = bool(told) and re.match(mistake.check, told[0]) is not None
            return [] if seen else ["dapl-port check says:", *told]
        shop.build(port, mistake.changes, folder)
        if mistake.build:
            return ["it builds"]
        results = shop.judge(port, folder, mistake.cases, mistake.patience)
        if shop.options.show:
            print("\n".join(f"{mistake.name}: {case}: {told_by(result)}"
                            for case, result in results.items()), flush=True)
        return judge_cases(mistake, results)
    except Refused as refusal:
        said = complaint(str(refusal))
        if shop.options.show:
            print(f"{mistake.name}: {said}", flush=True)
        if mistake.build and re.search(mistake.build, said):
            return []
        return [f"the build says: {said}", *str(refusal).splitlines()[:30]]
    except subprocess.TimeoutExpired as late:
        return [f"it hangs: {late}"]


def with_folder(shop: Workshop, port: Port, mistake: Mistake) -> tuple[list[str], float]:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mistake-") as folder:
        return judge(shop, port, mistake, pathlib.Path(folder)), time.monotonic() - began


def judge_unharmed(shop: Workshop, port: Port, mistakes: list[Mistake]) -> list[str]:
    """Judges the cases without a mistake: they pass, so the mistake turns them red."""
    cases = tuple(sorted({case for each in mistakes if each.port == port.name
                          for case in each.cases}))
    if not cases:
        return []
    with tempfile.TemporaryDirectory(prefix="mistake-") as name:
        folder = pathlib.Path(name)
        shop.copy(port, (), folder)
        shop.build(port, (), folder)
        results = shop.judge(port, folder, cases, 10)
        return [f"without a mistake {case} of the {port.name} port is {result['outcome']}:"
                f" {result['reason']}"
                for case, result in results.items() if result["outcome"] != "passed"]


def explore(shop: Workshop, port: Port, mistake: Mistake) -> None:
    with tempfile.TemporaryDirectory(prefix="mistake-") as name:
        folder = pathlib.Path(name)
        lines = [mistake.name]
        try:
            shop.copy(port, mistake.changes, folder)
            shop.build(port, mistake.changes, folder)
            patterns = tuple(shop.options.case or ())
            for rule, result in shop.judge(port, folder, patterns, mistake.patience).items():
                if result["outcome"] not in ("passed", "not claimed"):
                    lines.append(f"    {rule:<10} {result['outcome']}: "
                                 + told_by(result).replace("\n", "\n" + " " * 20)[:700])
        except Refused as refusal:
            lines += [complaint(str(refusal)), *str(refusal).splitlines()[:30]]
        print("\n".join(lines), flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conformance", type=pathlib.Path, required=True)
    parser.add_argument("--build-root", type=pathlib.Path, required=True)
    parser.add_argument("--libdat2", type=pathlib.Path, required=True)
    parser.add_argument("--osd", type=pathlib.Path, required=True, help="the osd library")
    parser.add_argument("--common", action="append", default=[], metavar="PORT=LIBRARY",
                        help="what is linked with a port: mistakes of other ports are left out")
    parser.add_argument("--mistake", action="append", help="only those that match this pattern")
    parser.add_argument("--sample", type=int, metavar="N", help="N mistakes, chosen at random")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--show", action="store_true", help="print what was said, too")
    parser.add_argument("--explore", action="store_true")
    parser.add_argument("--case", action="append", help="with --explore: only these")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--suite-jobs", type=int, default=2)
    parser.add_argument("--case-seconds", type=float, default=60)
    parser.add_argument("--compiler", nargs=argparse.REMAINDER, required=True,
                        help="and its arguments; the last option")
    return parser.parse_args()


def chosen(mistakes: list[Mistake], options: argparse.Namespace) -> list[Mistake]:
    if options.mistake:
        mistakes = [each for each in mistakes
                    if any(fnmatch.fnmatchcase(each.name, pattern) for pattern in options.mistake)]
    if options.sample:
        seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
        print(f"a sample by seed {seed}: --sample {options.sample} --seed {seed}", flush=True)
        mistakes = random.Random(seed).sample(mistakes, min(options.sample, len(mistakes)))
    return mistakes


def main() -> int:
    options = parse()
    all_ports = ports(options)
    mistakes = read_mistakes(TABLE)
    failures = judge_table(mistakes)
    if failures:
        print(*(f"FAIL {each}" for each in failures), sep="\n")
        return 1
    mistakes = chosen([each for each in mistakes if each.port in all_ports], options)
    shop = Workshop(options)
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        if options.explore:
            list(pool.map(lambda each: explore(shop, all_ports[each.port], each), mistakes))
            return 0
        for port in all_ports.values():
            failures += judge_unharmed(shop, port, mistakes)
        done = pool.map(lambda each: with_folder(shop, all_ports[each.port], each), mistakes)
        for mistake, (wrong, seconds) in zip(mistakes, done):
            print(f"{'FAIL' if wrong else 'ok  '} {seconds:5.1f} s  {mistake.name}", flush=True)
            if wrong:
                failures.append("\n".join([mistake.name, *wrong]))
    for failure in failures:  # at the end, which is what logs keep of a long output
        print("FAIL " + failure.replace("\n", "\n     "))
    print(f"{len(mistakes)} mistakes, {len(failures)} failed, {time.monotonic() - began:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
