# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Builds a port with and without its feature flags, and runs the suite and the benchmarks on both.

One build folder has all of it: Meson's option feature_variants builds the library of the port once
per flag, under adapters of their own (soft-lo-without-cq_wait), so that one process can open two of
them. Measured values are kept in that folder and not measured again.
"""

import dataclasses
import hashlib
import json
import math
import os
import pathlib
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import flag_worth
import port_status
import port_toml
import scorecard
from flag_worth import ALL, CONTROL
from skeleton import Kit, PortError

STATE = "features-state.json"
SOURCES = ("meson.build", "meson_options.txt", "include", "osd", "gen", "dat", "contract",
           "common", "port_support", "transports/meson.build", "conformance", "bench", "tools/program")
LIMIT = 1800  # seconds that a step may take
# On a busy machine a call may come before its event, so that its count is none, or a connection
# may break.
ATTEMPTS = 3


@dataclasses.dataclass(frozen=True)
class Effort:
    """How often everything is done."""

    calls: int
    messages: int
    switch_rounds: int
    rounds: int  # timed rounds, there and back again; none: nothing is timed
    batches: int
    suite: bool


FULL = Effort(calls=100, messages=64, switch_rounds=5, rounds=2, batches=40, suite=True)
UNTIMED = dataclasses.replace(FULL, rounds=0)
QUICK = Effort(calls=20, messages=16, switch_rounds=1, rounds=0, batches=0, suite=False)


def output_of(*command: object, cwd: pathlib.Path | None = None) -> str:
    """What a program says; nothing if it cannot."""
    try:
        return subprocess.run([str(word) for word in command], cwd=cwd, text=True, check=True,
                              capture_output=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def tree_key(kit: Kit, name: str) -> str:
    """Changes when a source does that the numbers depend on."""
    digest = hashlib.sha256()
    for part in (*SOURCES, f"transports/{name}"):
        root = kit.root / part
        paths = sorted(root.rglob("*")) if root.is_dir() else [root]
        for path in paths:
            if (path.is_file() and "__pycache__" not in path.parts
                    and not path.name.startswith("flag_")):  # this tool
                digest.update(str(path.relative_to(kit.root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


class Progress:
    """Shows the current step: in a line on a terminal, elsewhere in a line every PAUSE seconds."""

    PAUSE = 15

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()
        self.total = self.done = self._measured = 0
        self._began = time.monotonic()
        self._said = -math.inf

    def show(self, what: str) -> None:
        now = time.monotonic()
        if not self._on_terminal and now - self._said < self.PAUSE:
            return
        self._said = now
        left = ""
        if self._measured:
            each = (now - self._began) / self._measured
            left = f", about {each * (self.total - self.done) / 60:.0f} min left"
        line = f"[{self.done}/{self.total}{left}] {what}" if self.total else what
        if self._on_terminal:
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def step(self, measured: bool) -> None:
        self.done += 1
        self._measured += measured

    def clear(self) -> None:
        if self._on_terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class State:
    """The values measured of this tree, kept as they come."""

    def __init__(self, path: pathlib.Path, tree: str, restart: bool) -> None:
        self._path = path
        self._kept = {"tree": tree, "steps": {}}
        if path.exists() and not restart:
            try:
                kept = json.loads(path.read_text())
            except ValueError:  # it was being written
                kept = {}
            if kept.get("tree") == tree:
                self._kept = kept

    @property
    def steps(self) -> dict:
        return self._kept["steps"]

    def keep(self, key: str, value: object) -> None:
        self.steps[key] = value
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(self._kept))
        new.replace(self._path)


class Measurement:
    """One port, its builds, and their measured values."""

    def __init__(self, kit: Kit, name: str, build: pathlib.Path | None, adapter: str | None,
                 flags: list[str] | None, effort: Effort, restart: bool, seed: int) -> None:
        if kit.is_installed:
            raise PortError(f"{kit.root} is an installed kit, without the benchmarks: say --kit"
                            " and a source tree that has the port")
        self.kit, self.name, self.effort = kit, name, effort
        profile = port_toml.read(port_status.folder_of(kit, name, None) / "port.toml")
        port_toml.check(profile.feature_faults(list(kit.header.features)))
        self.texts = {**kit.header.features,
                      **dict.fromkeys(profile.own_features, "a feature of the port alone")}
        self.claimed = [flag for flag in self.texts
                        if {**profile.features, **profile.own_features}.get(flag, False)]
        self.flags = self._chosen(flags)
        if not profile.adapters:
            raise PortError(f"{profile.file.path}: [adapters] is empty: there is nothing to open")
        self.adapter = adapter or next(iter(profile.adapters))
        if self.adapter not in profile.adapters:
            raise PortError(f"{name} has no adapter '{self.adapter}'; it has:"
                            f" {', '.join(profile.adapters)}")
        self._suite_options = profile.suite_options(self.adapter)
        self.build = (build or kit.root / f"build-features-{name}").absolute()
        self._restart, self._seed = restart, seed
        self.missing: dict[str, str] = {}  # counts that are missing, and why
        self.progress = Progress()

    def _chosen(self, flags: list[str] | None) -> list[str]:
        if not self.claimed:
            raise PortError(f"{self.name} claims no feature: there is nothing to switch off")
        for flag in flags or []:
            if flag not in self.texts:
                raise PortError(f"there is no feature '{flag}'; {self.name} claims:"
                                f" {', '.join(self.claimed)}")
            if flag not in self.claimed:
                raise PortError(f"{self.name} does not claim '{flag}'; it claims:"
                                f" {', '.join(self.claimed)}")
        return list(dict.fromkeys(flags)) if flags else self.claimed

    def variant(self, flag: str) -> str:
        """What the names of a build without a flag end in."""
        return {CONTROL: "-again", ALL: "-plain"}.get(flag, f"-without-{flag}")

    @property
    def rows(self) -> list[str]:
        """The flags to switch off, one after another."""
        return [CONTROL, *self.flags, *([ALL] if self.flags == self.claimed else [])]

    # ------------------------------------------------------------------------------- the build

    def make(self) -> None:
        for tool, package in (("meson", "meson"), ("ninja", "ninja-build")):
            if shutil.which(tool) is None:
                raise PortError(f"{tool} is missing; the Debian package is {package}")
        options = [f"-Dports={self.name}", f"-Dfeature_variants={','.join(self.claimed)}",
                   "-Dplain_variants=true", "-Dtests=false", "-Dam=disabled",
                   "-Dbenchmarks=true", "-Doptimization=2", "-Ddebug=false"]
        configured = (self.build / "build.ninja").exists()
        if self.build.exists() and not configured and any(self.build.iterdir()):
            raise PortError(f"{self.build} is no build folder, and not empty")
        self.progress.show("building")
        if not configured:
            self._build_step("meson", "setup", self.build, self.kit.root, *options)
        elif not set(self.claimed) <= set(self._option("feature_variants")):
            self._build_step("meson", "configure", self.build, *options)
        self._build_step("ninja", "-C", self.build, "build.ninja")
        names = {each["name"]: each for each in
                 json.loads(output_of("meson", "introspect", self.build, "--targets") or "[]")}
        if f"dapl-{self.name}" not in names:
            raise PortError(f"{self.name} cannot be built here: see {self.build}/meson-logs")
        wanted = [f"dapl-{self.name}{suffix}" for suffix in ("", *map(self.variant, self.rows))]
        self.programs = {each: names[each]["filename"][0] for each in self._programs()
                         if each in names}
        paths = [names[each]["filename"][0] for each in [*wanted, "dat.conf"]]
        self._build_step("ninja", "-C", self.build, *(
            os.path.relpath(path, self.build) for path in [*paths, *self.programs.values()]))

    def _programs(self) -> list[str]:
        return ["instructions-probe", "context-switches",
                *(["overhead"] if self.effort.rounds else []),
                *(["dapl-conformance"] if self.effort.suite else [])]

    def _option(self, name: str):
        told = json.loads(output_of("meson", "introspect", self.build, "--buildoptions") or "[]")
        return next((each["value"] for each in told if each["name"] == name), [])

    def _build_step(self, *command: object) -> None:
        done = subprocess.run([str(word) for word in command], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            self.progress.clear()
            raise PortError(f"'{shlex.join(str(word) for word in command)}' failed:\n"
                            + "\n".join(done.stdout.splitlines()[-25:]))

    # --------------------------------------------------------------------------------- the steps

    def run(self) -> dict:
        self.make()
        self.state = State(self.build / STATE, self._key(), self._restart)
        self._look_for_tools()
        steps = list(self._steps())
        self.progress.total = len(steps)
        for key, title, action in steps:
            if known := key in self.state.steps:
                pass
            else:
                self.progress.show(title)
                self.state.keep(key, action())
            self.progress.step(not known)
        self.progress.clear()
        return self._results()

    def _key(self) -> str:
        return f"{tree_key(self.kit, self.name)} {self.adapter} {self._compiler()}"

    def _look_for_tools(self) -> None:
        counted = "instructions, stores, atomics and locks"
        if shutil.which("valgrind") is None:
            self.missing[counted] = "valgrind is missing"
        elif "instructions-probe" not in self.programs:
            self.missing[counted] = "valgrind's header was missing when the build was configured"
        elif shutil.which("objdump") is None:
            self.missing["atomics"] = "objdump is missing (Debian package binutils)"
        if "context-switches" not in self.programs:
            self.missing["context switches and wake-ups"] = "the benchmarks were not built"
        if self.effort.rounds and "overhead" not in self.programs:
            self.missing["times"] = "overhead was not built, which needs libfabric's headers"
        if self.effort.suite and "dapl-conformance" not in self.programs:
            self.missing["the suite"] = "dapl-conformance was not built"

    def _has(self, program: str) -> bool:
        return program in self.programs and (program != "instructions-probe"
                                             or shutil.which("valgrind") is not None)

    def _steps(self):
        """Key, title and action of everything that is to be measured."""
        builds = ["", *(self.variant(row) for row in self.rows)]
        if self._has("instructions-probe"):
            for line in flag_worth.LINES:
                for build in builds:
                    key = f"count {self.effort.calls} {line} {build}"
                    yield (key, f"counting {self.adapter}{build}",
                           lambda b=build, t=line: self._count(b, t))
        if self._has("context-switches"):
            for row in self.rows:
                key = f"switches {self.effort.messages} {self.effort.switch_rounds} {row}"
                yield key, f"context switches, {row}", lambda r=row: self._switches(r)
        if self.effort.suite and self._has("dapl-conformance"):
            for build in (each for each in builds if each != self.variant(CONTROL)):
                yield (f"suite {build}", f"suite, {self.adapter}{build}",
                       lambda b=build: self._judge(b))
        if self.effort.rounds and self._has("overhead"):
            rows = [row for row in self.rows if row != CONTROL]
            for at, run in enumerate(flag_worth.plan(rows, self.effort.rounds, self._seed)):
                key = f"times {self._seed} {self.effort.batches} {at} {run.flag}"
                yield key, f"times, {run.flag}", lambda r=run: self._time(r)

    def _tell(self, program: str, *arguments: object, allow_failure: bool = False) -> dict:
        """What a program of the build writes with --json."""
        with tempfile.TemporaryDirectory() as folder:
            told = pathlib.Path(folder) / "told.json"
            command = [*shlex.split(program), *map(str, arguments), "--json", str(told)]
            for _ in range(ATTEMPTS):
                done = self._run(command)
                if told.exists() and (done.returncode == 0 or allow_failure):
                    return json.loads(told.read_text())
        self.progress.clear()
        raise PortError(f"'{shlex.join(command)}' ended with {done.returncode}, {ATTEMPTS} times:\n"
                        + "\n".join(done.stdout.splitlines()[-15:]))

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "DAT_OVERRIDE": str(self.build / "transports/dat.conf"),
                       "LD_LIBRARY_PATH": str(self.build / "dat")}
        try:
            return subprocess.run(command, env=environment, text=True, check=False, timeout=LIMIT,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired as late:
            raise PortError(f"'{shlex.join(command)}' did not end in {LIMIT} s") from late

    def _count(self, build: str, line: str) -> dict:
        script = self.kit.root / "bench/instructions.py"
        for _ in range(ATTEMPTS):
            calls = self._tell(shlex.join([sys.executable, str(script)]), f"{self.adapter}{build}",
                               "--probe", self.programs["instructions-probe"], "--count",
                               self.effort.calls, *([f"--{line}"] if line else []))["calls"]
            if not any(row["odd_outcomes"] for row in calls.values()):
                break
        return {call: {} if row["odd_outcomes"] else row for call, row in calls.items()}

    def _pair(self, run: flag_worth.Run) -> list[str]:
        pair = [self.adapter, self.adapter + self.variant(run.flag)]
        return pair if run.with_first else pair[::-1]

    def _switches(self, row: str) -> dict:
        """There and back again: the mean of both orders. One way to wait at a time: the processes
        of several would only disturb each other."""
        found: dict[str, list[float]] = {}
        for way in flag_worth.WAYS:
            for first in (True, False):
                told = self._tell(self.programs["context-switches"],
                                  *self._pair(flag_worth.Run(row, first)), "--ways", way,
                                  "--rounds", self.effort.switch_rounds,
                                  "--wakeups", self.effort.messages)
                for each in told["results"]:
                    side = "without" if each["adapter"] != self.adapter else "with"
                    for kind in flag_worth.SWITCHES:
                        found.setdefault(f"{kind}/{way} {side}", []).append(
                            each[f"{kind}_switches"])
        return {key: sum(values) / len(values) for key, values in found.items()}

    def _judge(self, build: str) -> dict:
        told = self._tell(self.programs["dapl-conformance"], "--ia", f"{self.adapter}{build}",
                          *self._suite_options, allow_failure=True)
        return suite_summary(told)

    def _time(self, run: flag_worth.Run) -> dict:
        first, second = self._pair(run)
        told = self._tell(self.programs["overhead"], first, second, "--tests",
                          "latency,rate,waiting,cno", "--batches", self.effort.batches,
                          "--iterations", 200)
        found = {}
        for each in told["results"]:
            if each["test"] in found and each["placement"] != "all":
                continue
            ratios = each["ratios"]
            found[each["test"]] = {
                "ratios": [1 / ratio for ratio in ratios] if run.with_first else ratios,
                "with": each["dat" if run.with_first else "other"], "unit": each["unit"]}
        return found

    # ------------------------------------------------------------------------------- the results

    def _results(self) -> dict:
        flags = {}
        for row in self.rows:
            text = {CONTROL: "the port beside a second build of itself: the noise",
                    ALL: "every flag that the port claims", **self.texts}[row]
            others = [] if row in (CONTROL, ALL) else sorted(
                (port_toml.dependents(self.kit.header_path, {row}) & set(self.claimed)) - {row})
            flags[row] = {"text": text, "off_too": others, "counts": self._counts(row),
                          "times": self._times(row), "suite": self._suite(row)}
        return {"port": self.name, "adapter": self.adapter, "claimed": self.claimed,
                **self._circumstances(), "not_counted": self.missing, "flags": flags}

    def _counts(self, row: str) -> dict[str, list[float]]:
        found = {}
        for line in flag_worth.LINES:
            sides = [self.state.steps.get(f"count {self.effort.calls} {line} {build}")
                     for build in ("", self.variant(row))]
            if None in sides:
                continue
            found |= counts_of(line, *sides)
        told = self.state.steps.get(
            f"switches {self.effort.messages} {self.effort.switch_rounds} {row}", {})
        for key in told:
            if key.endswith(" with"):
                found[key.removesuffix(" with")] = [told[key], told[f"{key}out"]]
        return found

    def _times(self, row: str) -> dict[str, dict]:
        ratios: dict[str, list[float]] = {}
        values: dict[str, list] = {}
        for key, told in self.state.steps.items():
            if not (key.startswith(f"times {self._seed} {self.effort.batches} ")
                    and key.endswith(f" {row}")):
                continue
            for test, each in told.items():
                ratios.setdefault(test, []).extend(each["ratios"])
                values.setdefault(test, []).append((each["with"], each["unit"]))
        return {test: {**flag_worth.summary_of(ratios[test]), "unit": values[test][0][1],
                       "with": sorted(value for value, _ in values[test])[len(values[test]) // 2]}
                for test in ratios}

    def _suite(self, row: str) -> dict[str, dict]:
        sides = {"with": "", "without": self.variant(row)}
        return {side: told for side, build in sides.items()
                if (told := self.state.steps.get(f"suite {build}")) is not None and row != CONTROL}

    def _compiler(self) -> str:
        commands = json.loads((self.build / "compile_commands.json").read_text())
        words = [word for word in shlex.split(commands[0]["command"]) if "ccache" not in word]
        return (output_of(words[0], "--version").splitlines() or ["unknown compiler"])[0]

    def _circumstances(self) -> dict:
        commit = output_of("git", "rev-parse", "--short", "HEAD", cwd=self.kit.root)
        if commit and output_of("git", "status", "--porcelain", "-uno", cwd=self.kit.root):
            commit += " with changes"
        try:
            about = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        except OSError:
            about = []
        model = next((line.partition(":")[2].strip() for line in about
                      if line.startswith("model name")), platform.machine())
        return {"commit": commit or "no repository",
                "compiler": f"{self._compiler()}, -O{self._option('optimization')}",
                "machine": f"{model}, {os.cpu_count()} processors, Linux {platform.release()}",
                "seed": self._seed}


def counts_of(line: str, with_it: dict, without: dict) -> dict[str, list[float]]:
    """What `instructions` counted of two builds, by kind and call."""
    found = {}
    for kind in flag_worth.KINDS:
        field = "provider" if kind == "instructions" else kind
        for call in flag_worth.CALLS:
            if field in with_it[call] and field in without[call]:
                found[f"{kind}{line and '-' + line}/{call}"] = [with_it[call][field],
                                                                without[call][field]]
    return found


def suite_summary(card: dict) -> dict:
    bad = [each["rule"] for each in card["results"]
           if each["outcome"] in scorecard.FAILURES]
    return {"outcomes": {name: count for name, count in card["counts"].items() if count},
            "bad": bad}
