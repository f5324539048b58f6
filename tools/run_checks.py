#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Build and test everything, count the tests, and print what failed.

Without options: the same steps every time, in less than 20 minutes on two cores; --full has the long
rounds, too. A step's tests are chosen by its test setup in tests/meson.build. The last line is
"N passed, N failed", with ", N skipped" if there were any; the exit status follows it. Outputs are
kept in .check/, a file for each step.
"""

import argparse
import configparser
import contextlib
import dataclasses
import datetime
import fnmatch
import functools
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORK = ROOT / ".check"
QUICKSTART = ROOT / "build"
STATE = WORK / "full-state.json"
FULL_LOG = WORK / "full.log"
ADAPTER = "ofi-lo"
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
MESON = "/usr/bin/meson" if os.path.exists("/usr/bin/meson") else "meson"
SYSTEM_LIBDAT2 = [pathlib.Path(folder) for folder in
                  (f"/usr/lib/{os.uname().machine}-linux-gnu", "/usr/lib64")]
CROSS_FILES = ROOT / "osd/windows"
WINE_FOLDER = "/usr/lib/wine"  # Debian's
WINE = (
    ("WINEPREFIX", str(WORK / "wine")),
    ("WINEDEBUG", "-all"),
    ("WINEDLLOVERRIDES", "mscoree,mshtml="),  # keeps it from asking whether to download them
)
LEAST_COVERED = 95  # percent of the lines of common/, contract/ and dat/
STEP_SECONDS = 3600  # a step that takes longer is considered hung

ON_TERMINAL = (sys.stdout.isatty() and os.environ.get("CI") != "true"
               and not os.environ.get("NO_COLOR"))


# ---------------------------------------------------------------------------------------------
# Builds
# ---------------------------------------------------------------------------------------------

Wanted = tuple[str, ...]  # targets of ninja, or options of "meson test" that choose tests

@dataclasses.dataclass(frozen=True)
class Build:
    """One way to configure the tree, and how its tests are run."""

    options: tuple[str, ...] = ()
    compiler: tuple[str, str] = ("gcc", "g++")
    environment: tuple[tuple[str, str], ...] = ()
    run_time: str = ""  # a sanitizer's, to preload into programs that are compiled without it
    patience: int = 3  # factor on the tests' time limits; the machine may be busy
    processes: int = 6  # tests at a time; they mostly wait
    fixed_addresses: bool = False  # sanitizers' shadow memory has no room for every layout
    complete: bool = True  # everything is built, not just what the tests that are run need


# Each file by itself: it includes what it needs.
APART = "-Dunity=off"
# A trace shows lines; to describe the types, too, takes a fifth of the compiler's time.
LINES_ONLY = ("-Dc_args=-g1", "-Dcpp_args=-g1")
# The default does not have it: other compilers may have warnings that ours do not.
STRICT = "-Dwerror=true"

RELEASE = "-Dbuildtype=release"
TESTS = "-Dtests=true"
TRACED = "-Dtraced_ports=soft"

BUILDS = {
    # What ./quickstart builds.
    "gcc": Build(options=(STRICT, RELEASE, TESTS, TRACED)),
    "plain": Build(options=(STRICT, RELEASE, TESTS, TRACED, "-Dplain_variants=true")),
    "clang-files": Build(
        options=(STRICT, "-Dbuildtype=debug", TESTS, TRACED, APART, *LINES_ONLY),
        compiler=("clang", "clang++"),
    ),
    # What "meson setup" makes without options.
    "default": Build(options=(STRICT,)),
    # A quick build without the parts that are always compiled together.
    "files": Build(options=(STRICT, TRACED, APART, "-Dconformance=disabled", "-Doptimization=0",
                            "-Ddebug=false")),
    "clang-release": Build(options=(STRICT, RELEASE, TESTS, TRACED, APART),
                           compiler=("clang", "clang++")),
    "lto": Build(options=(STRICT, RELEASE, TESTS, TRACED, "-Db_lto=true", "-Dc_link_args=-Werror",
                          "-Dcpp_link_args=-Werror")),
    # Clang needs two thirds of gcc's time for it, and has -Wthread-safety and libFuzzer.
    "asan": Build(
        options=(STRICT, "-Db_sanitize=address,undefined", "-Db_lundef=false", "-Doptimization=0",
                 "-Dfuzzers=true", "-Dbenchmarks=false", TESTS, *LINES_ONLY),
        compiler=("clang", "clang++"),
        environment=(
            ("ASAN_OPTIONS", "strict_string_checks=1:detect_stack_use_after_return=1:print_legend=0"),
            ("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1"),
        ),
        run_time=f"libclang_rt.asan-{os.uname().machine}.so",
        patience=8,
        fixed_addresses=True,
        complete=False,
    ),
    "tsan": Build(
        options=(STRICT, "-Db_sanitize=thread", "-Db_lundef=false", "-Doptimization=0",
                 "-Dbenchmarks=false", TESTS, "-Dports=libfabric,soft", *LINES_ONLY),
        compiler=("clang", "clang++"),
        environment=(
            ("TSAN_OPTIONS", f"suppressions={ROOT}/tests/tsan.supp:second_deadlock_stack=1"),
        ),
        patience=15,
        processes=8,  # nothing is compiled beside them
        fixed_addresses=True,
        complete=False,
    ),
    "coverage": Build(
        options=(STRICT, "-Db_coverage=true", "-Doptimization=1", "-Dbenchmarks=false",
                 "-Dports=libfabric,soft", TESTS, TRACED),
        patience=4,
        complete=False,
    ),
    "aarch64": Build(
        options=(STRICT, RELEASE, TESTS, TRACED, f"--cross-file={ROOT}/tools/aarch64.ini"),
    ),
    "windows": Build(
        options=(STRICT, TESTS, f"--cross-file={CROSS_FILES}/mingw-w64.ini", *LINES_ONLY),
        environment=WINE,
    ),
    "windows-threads": Build(
        options=(STRICT, TESTS, f"--cross-file={CROSS_FILES}/mingw-w64.ini",
                 f"--cross-file={CROSS_FILES}/mingw-w64-threads.ini", "-Doptimization=0",
                 *LINES_ONLY),
        environment=WINE,
        complete=False,
    ),
}


def build_dir(name: str) -> pathlib.Path:
    """The folder of a build. A build of ./quickstart need not be built again."""
    return QUICKSTART if name == "gcc" and quickstart_fits() else WORK / name


@functools.cache
def quickstart_fits() -> bool:
    """Whether ./quickstart was here and built with gcc, our options and no others."""
    given = configparser.ConfigParser(interpolation=None)
    if not given.read(QUICKSTART / "meson-private/cmd_line.txt"):
        return False
    wanted = BUILDS["gcc"]
    targets = json.loads((QUICKSTART / "meson-info/intro-targets.json").read_text())
    sources = [source for target in targets for source in target["target_sources"]]
    words = {word for source in sources if source.get("language") == "cpp"
             for word in source["compiler"]}
    compilers = {os.path.realpath(program) for word in words if (program := shutil.which(word))}
    return (dict(given["options"]) == dict(option[2:].split("=") for option in wanted.options)
            and os.path.realpath(shutil.which(wanted.compiler[1]) or "") in compilers)


def fixed(command: list[str], build: Build) -> list[str]:
    """The command, run without address randomization where the build needs that."""
    prefix = ["setarch", os.uname().machine, "-R"]
    if not build.fixed_addresses or not shutil.which("setarch"):
        return command
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        return command
    return [*prefix, *command]


def last_change_of_libraries() -> float:
    """The time when a library came or went, so far as pkg-config knows."""
    said = subprocess.run(["pkg-config", "--variable=pc_path", "pkg-config"],
                          capture_output=True, text=True, check=False)
    return max((os.stat(folder).st_mtime for folder in said.stdout.strip().split(":")
                if os.path.isdir(folder)), default=0)


def configure_command(name: str) -> list[str]:
    made = build_dir(name) / "build.ninja"
    if made.exists() and made.stat().st_mtime < last_change_of_libraries():
        return [MESON, "setup", "--reconfigure", str(build_dir(name))]
    if made.exists():
        return ["ninja", "-C", str(build_dir(name)), "build.ninja"]
    build = BUILDS[name]
    return ["env", f"CC={build.compiler[0]}", f"CXX={build.compiler[1]}",
            *(f"{variable}={value}" for variable, value in build.environment),
            MESON, "setup", str(build_dir(name)), str(ROOT), *build.options]


def compile_tree(step: "Running", name: str, wanted: Wanted = ("all",)) -> None:
    """Configure once, then bring the build up to date; counts as one check."""
    ahead.hand_over(name)
    step.wait_while(lambda: ahead.compiles(name), ahead.log(name))
    if step.run(configure_command(name)) != 0:
        raise StepFailed(f"{name}: meson setup")
    if step.run(["ninja", "-C", str(build_dir(name)), *targets(name, wanted)]) != 0:
        raise StepFailed(f"{name}: build")
    step.outcome.passed += 1


def name_of_test(line: str) -> str:
    """The name in a line of "meson test --list": Meson 1.7 writes "project:suite / name", and 1.12
    "suite - project:name"."""
    return re.sub(r"^.* / |^(?:\S+ - )?\w+:(?! )", "", line, count=1)


def targets(name: str, wanted: Wanted) -> list[str]:
    """The targets that ninja is to make: the named ones, or those that the tests need that Meson
    would run, and in a complete build all that is built by default."""
    if not any(word.startswith("--") for word in wanted):
        return list(wanted)
    about = build_dir(name) / "meson-info"
    listed = subprocess.run([MESON, "test", "-C", str(build_dir(name)), "--no-rebuild", "--list",
                             *wanted], stdout=subprocess.PIPE, text=True, check=True).stdout
    tests = {test["name"]: test for test in json.loads((about / "intro-tests.json").read_text())}
    chosen = [name_of_test(line) for line in listed.splitlines()]
    if unknown := [each for each in chosen if each not in tests]:
        raise StepFailed(f"{name}: meson test lists {unknown[0]!r}, and it knows no such test")
    needed = {target for each in chosen for target in tests[each]["depends"]}
    return [os.path.relpath(file, build_dir(name))
            for target in json.loads((about / "intro-targets.json").read_text())
            if target["id"] in needed or (BUILDS[name].complete and target["build_by_default"])
            for file in target["filename"]]


OWN_SESSION = pathlib.Path("/proc/self/autogroup")


def own_session_nice() -> str:
    """How far Linux puts this program's session behind others. The first session of a system, in
    which a container's commands may run, has no group of its own and an empty file."""
    fields = OWN_SESSION.read_text().split()
    return fields[-1] if fields else "0"


class Ahead(threading.Thread):
    """Compiles what later steps need, at the lowest priority, while tests run and mostly wait."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._changing = threading.Lock()
        self._left: list[tuple[str, Wanted]] = []
        self._name = ""
        self._handed_over = False
        self._process: subprocess.Popen | None = None
        self._ended = False
        self.processor_seconds = 0.0

    def begin(self, trees: list[tuple[str, Wanted]]) -> None:
        self._left = trees
        self.start()

    def hand_over(self, name: str) -> None:
        """Leave a tree to its step, which waits: what compiles it goes on at this program's own
        priority, or ends if this user may not ask for that. At the lowest it would hardly go on
        while others use the machine."""
        with self._changing:
            self._left = [tree for tree in self._left if tree[0] != name]
            process = self._process if self._name == name else None
            self._handed_over = self._name == name
        if process is None or process.poll() is not None:
            return
        try:
            os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0))
            if OWN_SESSION.exists():
                pathlib.Path(f"/proc/{process.pid}/autogroup").write_text(own_session_nice())
        except OSError:
            end_group(process)

    def compiles(self, name: str) -> bool:
        """Whether this tree is being compiled. Its step compiles it by itself if it is not."""
        with self._changing:
            return self._name == name and self.is_alive()

    def end(self) -> None:
        with self._changing:
            self._left = []
            self._ended = True
        if self._process:
            end_group(self._process)
        if self.is_alive():
            self.join()

    @staticmethod
    def log(name: str) -> pathlib.Path:
        return WORK / f"{name}-ahead.log"

    def run(self) -> None:
        while True:
            with self._changing:
                self._name, wanted = self._left.pop(0) if self._left else ("", ())
                self._handed_over = False
            if not self._name:
                return
            with self.log(self._name).open("wb") as log:
                if self._call(configure_command(self._name), log):
                    self._call(["ninja", "-C", str(build_dir(self._name)),
                                *targets(self._name, wanted)], log)

    def _call(self, command: list[str], log: BinaryIO) -> bool:
        # Linux may share processors between sessions first, and ask for "nice" only within them.
        lowest = "echo 19 2>/dev/null >/proc/self/autogroup; exec nice -n 19 \"$@\""
        with self._changing:
            if self._ended or self._handed_over:
                return False
            self._process = subprocess.Popen(
                ["sh", "-c", lowest, "sh", *command], cwd=ROOT, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            _, status, used = os.wait4(self._process.pid, 0)
        except ChildProcessError:  # end() has waited for it
            return False
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self.processor_seconds += used.ru_utime + used.ru_stime
        return self._process.returncode == 0


ahead = Ahead()


# ---------------------------------------------------------------------------------------------
# Steps
# ---------------------------------------------------------------------------------------------


class StepFailed(Exception):
    """A step cannot go on; counts as one failure."""


@dataclasses.dataclass
class Outcome:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = dataclasses.field(default_factory=list)

    def fail(self, what: str) -> None:
        self.failed += 1
        self.failures.append(what)

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


class Running:
    """A step while it runs: its log, its progress line, its counts."""

    def __init__(self, name: str):
        self.name = name
        self.outcome = Outcome()
        self.skipped_because: list[str] = []
        self.log = WORK / f"{name}.log"
        self._began = time.monotonic()
        self._shown = self._began
        self._detail = ""
        self.log.write_text("")

    def skip(self, reason: str) -> None:
        self.outcome.skipped += 1
        self.skipped_because.append(reason)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def run(self, command: list[str], environment: dict[str, str] | None = None) -> int:
        """Run a command with its output in the log; a signal to this program ends it too."""
        with self.log.open("ab") as log:
            log.write(f"$ {' '.join(command)}\n".encode())
            log.flush()
            process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})},
                start_new_session=True)
            return self.wait_for(process)

    def wait_for(self, process: subprocess.Popen) -> int:
        try:
            return self._watch(process)
        finally:
            end_group(process)

    def wait_while(self, goes_on: Callable[[], bool], log: pathlib.Path) -> None:
        """Wait for what writes to another log."""
        while goes_on():
            time.sleep(0.5)
            self._progress(log)

    def _watch(self, process: subprocess.Popen) -> int:
        while True:
            try:
                return process.wait(timeout=0.5)
            except subprocess.TimeoutExpired:
                self._progress(self.log)

    def _progress(self, log: pathlib.Path) -> None:
        if self.seconds > STEP_SECONDS:
            raise StepFailed(f"{self.name}: not finished after {STEP_SECONDS / 60:.0f} minutes")
        now = time.monotonic()
        if ON_TERMINAL:
            width = shutil.get_terminal_size().columns - 1
            line = f"  {self.name}  {self.seconds:.0f} s  {last_line(log)}"
            print(f"\r\x1b[K{line[:width]}", end="", flush=True)
        elif now - self._shown > 15:
            self._shown = now
            print(f"  {self.name}: {self.seconds:.0f} s, {last_line(log)[:100]}", flush=True)


def end_group(process: subprocess.Popen) -> None:
    """Terminate a command and all its children."""
    if process.poll() is not None:
        return
    for what, wait in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, what)
            process.wait(timeout=wait)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def last_line(path: pathlib.Path) -> str:
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - 2048))
        lines = stream.read().decode(errors="replace").split("\n")
    telling = (line.strip() for line in reversed(lines) if re.search(r"[0-9A-Za-z]", line))
    return next(telling, "").replace(f"{ROOT}/", "")


def meson_tests(step: Running, name: str, *more: str) -> None:
    """Run a build's tests and count them from Meson's own record."""
    build = BUILDS[name]
    compile_tree(step, name, more)
    command = [MESON, "test", "-C", str(build_dir(name)), "--print-errorlogs", "--no-rebuild",
               "--num-processes", str(build.processes),
               "--timeout-multiplier", str(build.patience), *more]
    logs = build_dir(name) / "meson-logs"
    for record in logs.glob("testlog*.json"):
        record.unlink()
    status = step.run(fixed(command, build), dict(build.environment))
    # Meson has the setup in the name of its record.
    counted = sum(count_tests(step, record) for record in logs.glob("testlog*.json"))
    if status != 0 and step.outcome.failed == 0:
        raise StepFailed(f"{name}: meson test ended with status {status}")
    if counted == 0:
        raise StepFailed(f"{name}: there are no tests")


def count_tests(step: Running, record: pathlib.Path) -> int:
    lines = [line for line in record.read_text().splitlines() if line.strip()]
    for line in lines:
        test = json.loads(line)
        if test["result"] in ("OK", "EXPECTEDFAIL"):
            step.outcome.passed += 1
        elif test["result"] == "SKIP":
            step.outcome.skipped += 1
        else:
            said = (test.get("stdout", "") + test.get("stderr", "")).splitlines()
            ends = [f"\n    | {line[:200]}" for line in said if line.strip()][-12:]
            step.outcome.fail(f"{test['name']}: {test['result'].lower()}{''.join(ends)}")
    return len(lines)


def client_rounds(step: Running, name: str, whose: str, selection: str,
                  adapter: str = ADAPTER, more: tuple[str, ...] = ()) -> None:
    """Debian's programs over an adapter of ours, with the libdat2 of that build or the system's."""
    compile_tree(step, name, ("for-clients",))
    build, folder = BUILDS[name], build_dir(name)
    libdat2 = folder / "dat"
    if whose == "debian":
        libdat2 = next((path for path in SYSTEM_LIBDAT2 if (path / "libdat2.so.2").exists()), None)
        if libdat2 is None:
            step.skip("missing: Debian's libdat2.so.2, of the package libdapl2")
            return
    results = WORK / f"{step.name}.json"
    results.unlink(missing_ok=True)
    command = [PYTHON, "tests/clients/run_clients.py", "--libdat2", str(libdat2),
               "--dat-conf", str(folder / "transports/dat.conf"), "--adapter", adapter,
               "--select", selection, "--json", str(results),
               *(f"--preload={library}" for library in preloads(name)), *more]
    status = step.run(fixed(command, build), dict(build.environment))
    if status == 77:
        step.skip(last_line(step.log).removeprefix("skipped: "))
        return
    if not results.exists():
        raise StepFailed(f"{step.name}: the client runner ended with status {status}")
    for result in json.loads(results.read_text())["results"]:
        if result["passed"]:
            step.outcome.passed += 1
        else:
            step.outcome.fail(f"{result['name']}: {result['cause']}")


def run_time(build: Build) -> str:
    """The library to load before this build's, in a program that is not part of it."""
    return subprocess.run([build.compiler[1], f"-print-file-name={build.run_time}"],
                          capture_output=True, text=True, check=True).stdout.strip()


def preloads(name: str) -> list[str]:
    """Preloads for programs that are not ours. A report names functions of libraries that are
    loaded still.
    """
    build = BUILDS[name]
    if not build.run_time:
        return []
    return [run_time(build), str(build_dir(name) / "tests/clients/libkeep_loaded.so")]


def suite_over(step: Running, name: str, *adapters: str) -> None:
    """The suite as gcc's build compiled it and judges these adapters, over that build's libraries."""
    compile_tree(step, "gcc", ("--suite", "conformance"))
    compile_tree(step, name, ("for-clients",))
    build = BUILDS[name]
    listed = json.loads((build_dir("gcc") / "meson-info/intro-tests.json").read_text())
    tests = {test["name"]: test for test in listed}
    for adapter in adapters:
        if adapter not in tests:
            raise StepFailed(f"{step.name}: there is no test {adapter}")
        environment = {variable: value.replace(str(build_dir("gcc")), str(build_dir(name)))
                       for variable, value in tests[adapter]["env"].items()}
        status = step.run(fixed(tests[adapter]["cmd"], build),
                          {**environment, "LD_PRELOAD": run_time(build), **dict(build.environment)})
        if status == 0:
            step.outcome.passed += 1
        else:
            step.outcome.fail(f"{adapter}: status {status}")


def lacks_windows(step: Running) -> bool:
    """Whether nothing can be built and run for Windows here, which skips the step."""
    programs = ("x86_64-w64-mingw32-g++-win32", "x86_64-w64-mingw32-g++-posix",
                WINE_FOLDER + "/wine64")
    missing = [program for program in programs if not shutil.which(program)]
    if os.uname().machine != "x86_64":
        missing.append("a processor of the x86_64 kind")
    if missing:
        step.skip(f"missing: {', '.join(missing)}")
    return missing != []


@contextlib.contextmanager
def wine(step: Running) -> Iterator[None]:
    """Wine's server runs. Programs that start together before it does, and before Wine's folders are
    made, may hang."""
    pathlib.Path(dict(WINE)["WINEPREFIX"]).mkdir(exist_ok=True)
    server = [WINE_FOLDER + "/wineserver64"]
    if (step.run([*server, "--persistent"], dict(WINE)) != 0
            or step.run([WINE_FOLDER + "/wine64", "wineboot", "--init"], dict(WINE)) != 0):
        raise StepFailed(f"{step.name}: Wine does not start")
    try:
        yield
    finally:
        step.run([*server, "--kill"], dict(WINE))


def windows(step: Running, *more: str) -> None:
    """Cross-build what there is for Windows, and run its tests by Wine."""
    if lacks_windows(step):
        return
    with wine(step):
        meson_tests(step, "windows")
        meson_tests(step, "windows-threads", *more)


def one_wire(step: Running) -> None:
    """A Linux and a Windows process talk to each other over the software HCA."""
    if lacks_windows(step):
        return
    compile_tree(step, "gcc", ("tests/windows/exchange", "transports/libdapl-soft.so.2.0.0"))
    compile_tree(step, "windows", ("tests/windows/exchange.exe", "transports/libdapl-soft-2.dll"))
    with wine(step):
        status = step.run([PYTHON, "tests/windows/one_wire.py", "--linux", str(build_dir("gcc")),
                           "--windows", str(build_dir("windows"))],
                          {**dict(WINE), "MESON_EXE_WRAPPER": WINE_FOLDER + "/wine64"})
    if status == 0:
        step.outcome.passed += 1
    else:
        step.outcome.fail(f"{last_line(step.log)}: {step.log}")


# The suites of the event path whose threads do not race for seconds, too long on an emulator; and
# what is checked in all orders of its steps there: the claim of an EVD, the rings, the door.
ON_AN_EMULATOR = {
    "tests/common/common_test": (
        "claim", "kept", "posted_orders", "posted_ring", "order", "notification",
        "completion_event", "evd", "wait", "work_queue", "hot_path"),
    "tests/osd/osd_test": ("door",),
    "tests/soft/soft_test": ("cells",),
}


def aarch64(step: Running) -> None:
    """Compile every file for a processor that is no x86, and emulate one for tests of the event
    path; the libraries that other programs are linked with are lacking.
    """
    if not shutil.which("aarch64-linux-gnu-g++"):
        step.skip("missing: aarch64-linux-gnu-g++")
        return
    if step.run(configure_command("aarch64")) != 0:
        raise StepFailed("aarch64: meson setup")
    commands = json.loads((build_dir("aarch64") / "compile_commands.json").read_text())
    compile_tree(step, "aarch64", tuple(command["output"] for command in commands))
    compile_tree(step, "aarch64", tuple(ON_AN_EMULATOR))
    if not shutil.which("qemu-aarch64"):
        step.skip("missing: qemu-aarch64, so what the event path does there")
        return
    for program, suites in ON_AN_EMULATOR.items():
        if step.run(["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu",
                     str(build_dir("aarch64") / program),
                     f"--test-suite={','.join(suites)}"]) == 0:
            step.outcome.passed += 1
        else:
            step.outcome.fail(f"{program} on an emulated aarch64")


def machine(step: Running, *kernel: str) -> None:
    """Make ready the virtual machine that later steps test RDMA devices in."""
    tool = [str(ROOT / "tools/vm/run-in-vm"), *kernel]
    ready = step.run([*tool, "--check"]) == 0 or (
        step.run([*tool, "--prepare"]) == 0 and step.run([*tool, "--check"]) == 0)
    if ready:
        step.outcome.passed += 1
    else:
        step.skip(f"no RDMA devices: {last_line(step.log)}")


def another_system(step: Running, release: str) -> None:
    """What a newcomer runs, on another release of Debian, in a folder that is kept."""
    status = step.run([str(ROOT / "tools/systems/try-system"), release])
    if status == 77:
        said = re.findall(r"^try-system: (.*)$", step.log.read_text(errors="replace"), re.M)
        step.skip(said[-1] if said else "try-system cannot run")
    elif status == 0:
        step.outcome.passed += 1
    else:
        step.outcome.fail(f"{release}: status {status}")


def coverage(step: Running) -> None:
    """Counts the lines of port-independent code that the tests execute; names the others."""
    if not shutil.which("gcovr"):
        step.skip("missing: gcovr")
        return
    tree = build_dir("coverage")
    for counts in tree.rglob("*.gcda"):
        counts.unlink()
    meson_tests(step, "coverage", "--setup", "own_code", "--no-suite", "am")
    report = WORK / "coverage"
    report.mkdir(exist_ok=True)
    if step.run(["gcovr", "--root", str(ROOT), "--object-directory", str(tree),
                 "--filter", "common/", "--filter", "contract/", "--filter", "dat/",
                 "--exclude-throw-branches", "--exclude-unreachable-branches",
                 "--txt", str(report / "missing.txt"), "--html-details", str(report / "index.html"),
                 "--print-summary", "--fail-under-line", str(LEAST_COVERED), str(tree)]) == 0:
        step.outcome.passed += 1
    else:
        step.outcome.fail(f"less than {LEAST_COVERED} % of the lines, or no report: {step.log}")


def licence_lines(step: Running) -> None:
    """Every file says in its first lines under which licence it is."""
    listed = git("ls-files", "-co", "--exclude-standard", "-z")
    names = [name for name in listed.split("\0") if name]
    if not names:
        step.skip("not a checkout, or no git")
        return
    exempt = re.compile(r"(^|/)\.[^/]+$|^LICENSES/|\.(json|txt|csv|png)$"
                        r"|^debian/(changelog|copyright|source/format)$")
    without = [name for name in names
               if not exempt.search(name) and (ROOT / name).is_file()
               and b"SPDX-License-Identifier:" not in (ROOT / name).read_bytes()[:400]]
    with step.log.open("a") as log:
        log.writelines(f"no SPDX line: {name}\n" for name in without)
    if without:
        step.outcome.fail(f"no SPDX line in {', '.join(without[:8])}")
    else:
        step.outcome.passed += 1


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    about: str
    run: Callable[[Running], None]
    part: str = "default"  # always; quick: of --quick only; long: of --full only


def steps() -> list[Step]:
    """The table of all steps."""
    def tests(name: str, *more: str) -> Callable[[Running], None]:
        return lambda step: meson_tests(step, name, *more)

    def clients(*what: object, **more: object) -> Callable[[Running], None]:
        return lambda step: client_rounds(step, *what, **more)

    table = [
        Step("licences", "an SPDX line in every file", licence_lines, "always"),
        Step("machine", "the virtual machine with RDMA devices can run", machine),
        Step("quick", "gcc, a release, warnings are errors; the quicker tests",
             tests("gcc", "--setup", "quick"), "quick"),
        Step("gcc", "gcc, a release, warnings are errors; all tests but long rounds",
             tests("gcc", "--setup", "check")),
        Step("windows", "libraries for Windows; tests of what is near the system, run by Wine",
             lambda step: windows(step, "--setup", "windows")),
        Step("files", "gcc compiles what is installed, and a traced port, file by file",
             lambda step: compile_tree(step, "files")),
        Step("clients-ours", "Debian's DAT programs, our libdat2", clients("gcc", "ours", "@short")),
        Step("clients-debian", "some of them with Debian's libdat2",
             clients("gcc", "debian", "@smoke,dapltest-T-4x8-mix,dtestx")),
        Step("asan", "clang, address and undefined-behaviour sanitizers; tests that run our code, "
             "and fuzzers", tests("asan", "--setup", "asan")),
        Step("asan-suite", "the suite on sanitized libraries, over soft-lo and ofi-lo",
             lambda step: suite_over(step, "asan", "soft-lo threadsafe", "ofi-lo threadsafe")),
        Step("asan-clients", "DAT programs on sanitized libraries",
             clients("asan", "ours", "@smoke,dapltest-T-4x8-mix")),
        Step("tsan", "clang, thread sanitizer; unit and port tests",
             tests("tsan", "--setup", "tsan")),
        Step("machine-sid", "the virtual machine can run with the kernel of Debian sid",
             lambda step: machine(step, "--kernel", "sid"), "long"),
        Step("machine-rounds", "all of the verbs port, on each device of the virtual machine",
             tests("plain", "--suite", "vm-rounds"), "long"),
        Step("soft-rounds", "the software HCA on bad networks, twenty seeds; peers that are killed",
             tests("gcc", "--suite", "soft-rounds"), "long"),
        Step("conformance-rounds", "bursts of 5,000 connects, crossing disconnects, reloading",
             tests("gcc", "--suite", "conformance-rounds"), "long"),
        Step("rest", "variants without features; the suite on soft-lo nonthreadsafe, ofi-lo threadsafe, "
             "memory-lo, and below Debian's libdat2; counted columns of the documents",
             tests("plain", "--suite", "rest"), "long"),
        Step("feature-rounds", "the suite over each port without each of its features, and their price",
             tests("gcc", "--suite", "feature-rounds"), "long"),
        Step("gen-rounds", "new ports, whole and filled in by steps; mistakes of port authors",
             tests("gcc", "--suite", "gen-rounds"), "long"),
        Step("fault-rounds", "the suite over a port that fails in more than a hundred ways",
             tests("gcc", "--suite", "fault-rounds"), "long"),
        Step("fault-plans", "threads that use an adapter which fails by chance, two hundred times",
             tests("gcc", "--suite", "plan-rounds"), "long"),
        Step("asan-plans", "the same, sanitized", tests("asan", "--suite", "plan-rounds"), "long"),
        Step("tsan-plans", "and with the thread sanitizer",
             tests("tsan", "--suite", "plan-rounds"), "long"),
        Step("mrdb-rounds", "processes that share memory, killed at every instruction",
             tests("gcc", "--suite", "mrdb-rounds"), "long"),
        Step("fuzz-rounds", "each fuzzer for ten minutes",
             tests("asan", "--suite", "fuzz-rounds"), "long"),
        Step("am-rounds", "jobs of libdapl-am: every exit, ranks that fail, srun, 64 ranks",
             tests("gcc", "--suite", "am-rounds", "--num-processes", "1"), "long"),
        Step("dat12-rounds", "the suite through DAT 1.2, and threads that use all of it",
             tests("gcc", "--suite", "dat12-rounds"), "long"),
        Step("stress", "threads that use one adapter in every way at once, ten minutes",
             tests("gcc", "--suite", "stress-rounds"), "long"),
        Step("asan-stress", "the same for some minutes, sanitized",
             tests("asan", "--suite", "stress-rounds"), "long"),
        Step("tsan-stress", "and with the thread sanitizer",
             tests("tsan", "--suite", "stress-rounds"), "long"),
        Step("soft-hosts", "whole client round over the software HCA, on two hosts",
             clients("gcc", "ours", "@default,@srq", adapter="soft-lo", more=("--two-hosts",)),
             "long"),
        Step("clang-tests", "everything compiled by clang, file by file, and all tests",
             tests("clang-files", "--setup", "every_test"), "long"),
        Step("windows-tests", "all tests for Windows, run by Wine",
             lambda step: windows(step, "--setup", "every_test"), "long"),
        Step("one-wire", "a Linux and a Windows process talk to each other, on a bad network too",
             one_wire, "long"),
        Step("coverage", "how much of common/, contract/ and dat/ the tests execute", coverage, "long"),
        Step("default", "gcc compiles what \"meson setup\" has without options",
             lambda step: compile_tree(step, "default"), "long"),
        Step("aarch64", "another processor: gcc compiles all, an emulator runs the event path",
             aarch64, "long"),
        Step("clang-release", "clang compiles everything optimized as for a release",
             lambda step: compile_tree(step, "clang-release"), "long"),
        Step("trixie", "./quickstart and ./check --quick on Debian 13, in a system of its own",
             lambda step: another_system(step, "trixie"), "long"),
        Step("sid", "the same on Debian's unstable release",
             lambda step: another_system(step, "sid"), "long"),
        Step("lto", "everything optimized across files, and all tests",
             tests("lto", "--setup", "every_test"), "long"),
    ]
    table += [
        Step("rounds-ours", "a whole client round, our libdat2",
             clients("gcc", "ours", "@default"), "long"),
        Step("rounds-debian", "a whole client round, Debian's libdat2",
             clients("gcc", "debian", "@default"), "long"),
        Step("repeat", "3 times all tests that run our code",
             tests("gcc", "--repeat", "3", "--num-processes", "8", "--setup", "own_code"), "long"),
        Step("asan-all", "all tests that run our code, sanitized",
             tests("asan", "--setup", "asan_all"), "long"),
        Step("asan-rounds", "a client round on sanitized libraries",
             clients("asan", "ours", "@short"), "long"),
        Step("tsan-conformance", "black-box cases, thread sanitizer",
             tests("tsan", "--suite", "conformance", "--num-processes", "1"), "long"),
        Step("tsan-repeat", "twice unit and port tests, thread sanitizer",
             tests("tsan", "--repeat", "2", "--setup", "tsan_all"), "long"),
    ]
    return table


# Steps, in the order in which they come, and the trees that they may find compiled. What mostly
# waits comes while there is something to compile, and not at the end.
AHEAD: tuple[tuple[str, str, Wanted], ...] = (
    ("gcc", "gcc", ("--setup", "check")),
    ("windows", "windows", ()),
    ("windows", "windows-threads", ("--setup", "windows")),
    ("files", "files", ("all",)),
    ("asan", "asan", ("--setup", "asan")),
    ("asan-suite", "asan", ("for-clients",)),
    ("tsan", "tsan", ("--setup", "tsan")),
)

# ---------------------------------------------------------------------------------------------
# A run
# ---------------------------------------------------------------------------------------------


def tree_hash() -> str:
    """The git tree of the files as they are now, committed or not; '' outside a checkout."""
    objects = WORK / "objects"
    objects.mkdir(parents=True, exist_ok=True)
    index = WORK / "index"
    index.unlink(missing_ok=True)
    common = git("rev-parse", "--git-common-dir")
    if not common:
        return ""
    environment = {
        "GIT_INDEX_FILE": str(index),
        "GIT_OBJECT_DIRECTORY": str(objects),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str((ROOT / common / "objects").resolve()),
    }
    git("add", "-A", environment=environment)
    return git("write-tree", environment=environment)


def git(*arguments: str, environment: dict[str, str] | None = None) -> str:
    try:
        answer = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True,
                                env={**os.environ, **(environment or {})}, check=False)
    except OSError:
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


class Record:
    """What --full remembers: the steps that passed on this very tree, and a log of all."""

    def __init__(self, restart: bool):
        self._tree = tree_hash()
        self._done: dict[str, list[int]] = {}
        known = json.loads(STATE.read_text()) if STATE.exists() and not restart else {}
        if self._tree and known.get("tree") == self._tree:
            self._done = known["done"]
        self._write(f"--- {now()}, commit {git('rev-parse', '--short', 'HEAD') or 'none'}, "
                    f"tree {self._tree[:12] or 'unknown'}, "
                    f"{len(self._done)} steps done before")

    def done_before(self, name: str) -> Outcome | None:
        return Outcome(*self._done[name]) if name in self._done else None

    def note(self, step: Running) -> None:
        outcome = step.outcome
        if outcome.failed == 0:
            self._done[step.name] = [outcome.passed, outcome.failed, outcome.skipped]
            STATE.write_text(json.dumps({"tree": self._tree, "done": self._done}, indent=2) + "\n")
        self._write(f"{now()}  {step.name:<18} {outcome}, {step.seconds:.0f} s")
        for failure in outcome.failures:
            self._write(f"    {failure}")

    def close(self, line: str) -> None:
        self._write(f"{now()}  {line}")

    @staticmethod
    def _write(line: str) -> None:
        with FULL_LOG.open("a") as log:
            log.write(line + "\n")


def now() -> str:
    return datetime.datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")


def colour(text: str, code: int) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if ON_TERMINAL else text


def processor_seconds() -> float:
    """Processor time of children so far, except for code compiled ahead, which is shown by itself.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime - ahead.processor_seconds


def execute(step: Step) -> Running:
    """Run one step and print its line; what failed is shown with the end of the log."""
    running = Running(step.name)
    used_before = processor_seconds()
    if not ON_TERMINAL:
        print(f"{step.name}: {step.about}", flush=True)
    try:
        step.run(running)
    except StepFailed as failure:
        running.outcome.fail(str(failure))
    if ON_TERMINAL:
        print("\r\x1b[K", end="")
    outcome = running.outcome
    print(f"{step.name:<18} {colour(str(outcome), 31 if outcome.failed else 32)}, "
          f"{running.seconds:.0f} s, processor {processor_seconds() - used_before:.0f} s",
          flush=True)
    for reason in running.skipped_because:
        print(f"    skipped, {reason}", flush=True)
    if outcome.failed:
        for failure in outcome.failures[:20]:
            print(f"    {failure.partition(chr(10))[0]}")
        print(f"    the end of {running.log.relative_to(ROOT)}:")
        lines = running.log.read_text(errors="replace").splitlines()
        print("\n".join(f"    | {line[:200]}" for line in lines[-80:]), flush=True)
    return running


def run_steps(chosen: list[Step], record: Record | None) -> Outcome:
    total = Outcome()
    for step in chosen:
        outcome = record.done_before(step.name) if record else None
        if outcome:
            print(f"{step.name:<18} {outcome}, done before on this tree", flush=True)
        else:
            running = execute(step)
            outcome = running.outcome
            if record:
                record.note(running)
        total.passed += outcome.passed
        total.failed += outcome.failed
        total.skipped += outcome.skipped
        total.failures += [f"{step.name}: {failure}" for failure in outcome.failures]
    return total


def choose(options: argparse.Namespace) -> list[Step]:
    table = steps()
    if options.only:
        for pattern in options.only:
            if not fnmatch.filter([step.name for step in table], pattern):
                raise SystemExit(f"check: there is no step {pattern}; see --list")
        return [step for step in table
                if any(fnmatch.fnmatchcase(step.name, pattern) for pattern in options.only)]
    if options.full:
        return [step for step in table if step.part != "quick"]
    return [step for step in table
            if step.part in ("always", "quick" if options.quick else "default")]


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--quick", action="store_true", help="one build and its tests only")
    how.add_argument("--full", action="store_true",
                     help="also the long rounds, less than three hours in all; resumes "
                     "after the steps that passed, unless a file has changed; writes "
                     ".check/full.log")
    parser.add_argument("--only", action="append", metavar="STEP",
                        help="run only this step, or the steps that match this pattern (may be "
                        "repeated); with --full resumed and logged like that")
    parser.add_argument("--restart", action="store_true", help="with --full: run all steps again")
    parser.add_argument("--list", action="store_true", help="list the steps and exit")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    chosen = choose(options)
    if options.list:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # its reader may have read enough
        for step in steps():
            part = {"quick": "--quick", "long": "--full"}.get(step.part, "")
            print(f"{step.name:<18} {part:<7} {step.about}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    WORK.mkdir(exist_ok=True)
    record = Record(options.restart) if options.full else None
    began = time.monotonic()
    try:
        steps_to_run = {step.name for step in chosen}
        ahead.begin([(tree, wanted) for step, tree, wanted in AHEAD if step in steps_to_run])
        total = run_steps(chosen, record)
    finally:
        ahead.end()
    used = processor_seconds()
    print(f"\n{len(chosen)} steps, {time.monotonic() - began:.0f} s; processor {used:.0f} s, and "
          f"{ahead.processor_seconds:.0f} s to compile ahead; logs are in .check/")
    for failure in total.failures:
        print(f"FAIL {failure}")
    if record:
        record.close(str(total))
    print(total, flush=True)
    return 1 if total.failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
