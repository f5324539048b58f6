#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The commands shown in the documents are valid and do what the text says.

Each is run verbatim, on this build and on a port `acme`: created by dapl-port in a copy of the
tree and, for programs that use its adapter, the software HCA under that name. A command that still
runs after some seconds, or after one second of a processor, is considered valid, and is terminated.
"""

import argparse
import concurrent.futures
import contextlib
import fnmatch
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "gen"))

from trees import KIT_PARTS, MESON, ROOT, copy_tree  # noqa: E402

OPTIONS = argparse.Namespace()
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "NEWS.md", "SECURITY.md", "docs/*.md",
             "docs/design/*.md", "docs/man/*.md", "docs/programming/*.md", "tools/vm/README.md",
             "transports/*/README.md", "osd/README.md")
PATIENCE = 3  # seconds
WORK = 0.3  # seconds of a processor, which benchmarks use up by polling

# The first words of commands. A program name alone, in a sentence, is not a command.
COMMAND = re.compile(r"""(?:\$\ )?(?:\./|gen/|tools/|tests/|python3\ |gdb\ |meson\b|ninja\b|
                         dat-\w+\ |dapl-(?:port|conformance)\ |dtest\ |fi-twin\ |
                         (?:overhead|instructions|context-switches|many-endpoints)\ )""", re.X)
# Placeholders.
MEANING = {"NAME": "acme-lo", "FILE": "out.svg", "STEP": "gcc",
           "overhead … ": "overhead acme-lo --beside acme-lo-plain ", "gdb --args ": ""}
# Commands that are not run here, and why.
NOT_RUN = {
    "./quickstart": "runs for minutes, and installs packages",
    "./check": "runs this test",
    "./check --quick": "runs this test",
    "./check --full": "runs this test",
    "./check --only *": "runs this test, or others for minutes",
    "dat-info --report*": "needs a scorecard; the test dat-info makes reports",
    "dapl-conformance --ia NAME --fail-device *": "needs a device that fails; tests/verbs has one",
    "dat-info --watch": "needs a program that offers counters; the test dat-info starts some",
    "dtest *": "tests/clients runs it",
    "gen/dapl-port new NAME": "gen-port does, with many a name",
    "gen/dapl-port new acme --style sim && *": "gen-build does, and the suite gen-rounds",
    "dapl-port new": "a command of dapl-port, by its name",
    "dapl-port status": "a command of dapl-port, by its name",
    "dapl-port features*": "builds for minutes; the suite feature-rounds runs it",
    "meson devenv -C build dapl-port status acme --results *": "gen-port does; the suite takes longer",
    "meson devenv * am-beside-mpi": "needs MPI; tests/am uses it",
    "meson devenv": "a command of Meson, by its name",
    "meson devenv -C build dapl-conformance --ia soft-lo --calls *": "the test of the answers does",
    "meson devenv -C build-asan *": "a build of ./check, which is not there",
    "meson dist": "a command of Meson, by its name",
    "meson install": "a command of Meson, by its name",
    "meson setup build && ninja -C build*": "gen-build does",
    "meson setup --cross-file * -Dports=acme *": "windows-new-port does, with a port of style sim",
    "meson setup release *": "installed does",
    "meson setup build -Dprefix=*": "gen-build does",
    "meson setup build-?san *": "./check does",
    "meson setup ~/dapl-acme*": "gen-build does",
    "ninja -C build && meson devenv *": "gen-build does the first, and the second is shown alone",
    "ninja -C build-windows": "the step windows of ./check builds for minutes",
    "ninja -C build clang-format": "would change the sources",
    "tools/make-site *": "needs cmark-gfm and mandoc; the test site does",
    "tools/setup-packages": "installs packages",
    "tools/systems/try-system *": "makes a system",
    "tools/vm/run-in-vm *": "needs the virtual machine; tests/vm uses it",
    "tests/verbs/vm_round.py *": "needs the virtual machine; tests/verbs uses it",
}
# Commands with another exit status, and why.
MAY_END_WITH = {
    "overhead ofi-lo --limit 1.10": 1,  # the ratio is above the limit now
    "instructions soft-lo --limit": 1,  # this build does not optimize, or is another compiler's
    "dapl-port check acme": 1,  # acme-lo is an adapter of soft here
    "meson devenv -C build dapl-port check acme": 1,
}
# Programs that are not built everywhere.
OPTIONAL = {"overhead", "instructions", "context-switches", "many-endpoints", "dat-perf", "dat-info",
            "dapl-conformance", "mpirun"}


def lines_of(text: str) -> list[str]:
    """Lines of code blocks, and text between backticks."""
    blocks = re.findall(r"(?ms)^```\w*\n(.*?)^```", text)
    rest = re.sub(r"(?ms)^```\w*\n.*?^```", "", text)
    indented = re.findall(r"(?m)^    (\S.*)$", rest)
    spans = [" ".join(each.split()) for each in re.findall(r"`([^`]+)`", rest)]
    joined = "\n".join([*blocks, *indented]).replace("\\\n", " ")
    return [*joined.split("\n"), *(each for each in spans if " " in each)]


def commands_of(text: str) -> list[str]:
    """The lines without comments."""
    found = (re.sub(r"\s+#.*", "", line).strip() for line in lines_of(text))
    return [each for each in found if COMMAND.match(each)]


def all_commands() -> dict[str, str]:
    """Each command, and a document that contains it."""
    return {command: str(path.relative_to(ROOT))
            for pattern in DOCUMENTS for path in sorted(ROOT.glob(pattern))
            for command in commands_of(path.read_text())}


def kind_not_run(command: str) -> str | None:
    return next((each for each in NOT_RUN if fnmatch.fnmatchcase(command, each)), None)


def used_by(group: int) -> float:
    """Seconds of a processor that the processes of a group have used, ended ones included."""
    ticks = 0
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            numbers = path.read_text().rpartition(")")[2].split()
            if int(numbers[2]) == group:
                ticks += sum(map(int, numbers[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def status_of(process: subprocess.Popen, patience: float, work: float) -> int | None:
    """Its exit status; None if it goes on."""
    until = time.monotonic() + patience
    while time.monotonic() < until and used_by(process.pid) < work:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(0.25)
    return process.poll()


class Shown(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        keep = tempfile.TemporaryDirectory(prefix="documents-")
        cls.addClassCleanup(keep.cleanup)
        cls.folder = pathlib.Path(keep.name)
        cls.tree = copy_tree(cls.folder / "tree")
        subprocess.run([sys.executable, cls.tree / "gen/dapl-port", "new", "acme"],
                       cwd=cls.tree, check=True, capture_output=True)
        dumped = subprocess.run([MESON, "devenv", "-C", OPTIONS.build, "env", "-0"],
                                check=True, capture_output=True, text=True).stdout
        cls.environment = dict(each.split("=", 1) for each in dumped.split("\0") if "=" in each)
        # Meson 1.7 sets it; a cross build would find libraries of this system with it.
        cls.environment.pop("PKG_CONFIG", None)
        conf = cls.folder / "dat.conf"
        cls.adapters = cls.write_conf(pathlib.Path(cls.environment["DAT_OVERRIDE"]), conf)
        cls.environment |= {"DAT_OVERRIDE": str(conf), "HOME": str(cls.folder)}

    @staticmethod
    def write_conf(built: pathlib.Path, conf: pathlib.Path) -> set[str]:
        """The adapters of the build and of the port acme."""
        text = built.read_text()
        for suffix in ("", "-plain"):
            lines = (re.findall(rf"(?m)^soft-lo{suffix} .*\n", text)
                     or re.findall(r"(?m)^soft-lo .*\n", text))
            text += "".join(f"acme-lo{suffix} {line.split(' ', 1)[1]}" for line in lines)
        conf.write_text(text)
        return set(re.findall(r"(?m)^([\w-]+) ", text))

    def as_run(self, command: str) -> str:
        """The command line for a shell in a source tree, with this build as `build`."""
        for word, meaning in MEANING.items():
            command = command.replace(word, meaning)
        command = re.sub(r"^meson devenv -C build\s*", "", command) or "true"
        program = command.split()[0]
        if (OPTIONS.build / program).is_file():
            command = f"{OPTIONS.build}/{command}"
        if program == "meson":
            command = command.replace("meson", str(MESON), 1)
        if command.startswith(f"{MESON} test"):
            command = command.replace(" -C build", "") + f" -C {OPTIONS.build} --list | grep ."
        if not shutil.which("jq"):
            command = re.sub(r"\| jq .*", "| grep .", command)
        return command

    def missing(self, command: str) -> str | None:
        """The prerequisites of the command that this build or system lacks."""
        program = command.split()[0]
        if program in OPTIONAL and not shutil.which(program, path=self.environment["PATH"]):
            return program
        if program == "instructions" and not shutil.which("valgrind"):
            return "valgrind"
        named = set(re.findall(r"\b(?:acme|soft|ofi)-lo(?:-plain)?\b(?!\.)", command))
        return ", ".join(named - self.adapters) or None

    def problem_with(self, command: str) -> str | None:
        said = self.as_run(command)
        if self.missing(said):
            return None
        tree = self.tree
        if "dapl-port new" in said:
            tree = copy_tree(pathlib.Path(tempfile.mkdtemp(dir=self.folder)) / "tree", KIT_PARTS)
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(["bash", "-o", "pipefail", "-c", said], cwd=tree,
                                       env=self.environment, stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=output, start_new_session=True)
            try:
                status = (process.wait(120) if said.startswith(str(MESON))
                          else status_of(process, PATIENCE, WORK))
            except subprocess.TimeoutExpired:
                status = None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            if status is None:
                return None
            allowed = {0, *(also for begins, also in MAY_END_WITH.items()
                            if command.startswith(begins))}
            if status in allowed:
                return None
            output.seek(0)
            return f"status {status}: {output.read()[-800:]}"

    def test_every_command(self) -> None:
        commands = [(command, where) for command, where in all_commands().items()
                    if not kind_not_run(command)]
        self.assertGreater(len(commands), 30)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            problems = pool.map(lambda each: self.problem_with(each[0]), commands)
            found = [f"{where} shows `{command}`: {problem}"
                     for (command, where), problem in zip(commands, problems) if problem]
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_what_is_not_run_is_shown(self) -> None:
        named = {kind_not_run(command) for command in all_commands()}
        self.assertEqual(set(NOT_RUN) - named, set(), "no document shows these any more")


class Width(unittest.TestCase):
    def test_lines_have_at_most_100_columns(self) -> None:
        """Where somebody breaks them: no rows of tables, no code, nothing that is generated."""
        found = []
        for path in (each for pattern in DOCUMENTS for each in sorted(ROOT.glob(pattern))):
            text = path.read_text()
            if "; do not edit. -->" in text:
                continue
            text = re.sub(r"(?ms)^ *```.*?^ *```$", lambda code: "\n" * code[0].count("\n"), text)
            for number, line in enumerate(text.splitlines(), 1):
                breaks = " " in line.strip()[2:100] and not line.startswith(("|", "    ", "["))
                if len(line) > 100 and breaks:
                    found.append(f"{path.relative_to(ROOT)}:{number}: {len(line)} columns")
        self.assertFalse(found, "\n" + "\n".join(found))


class Lists(unittest.TestCase):
    def test_a_reader_that_has_read_enough(self) -> None:
        """It ends a list silently, as other programs do."""
        for command in ("gen/dapl-port list", "./check --list",
                        "tests/clients/run_clients.py --list"):
            done = subprocess.run(["bash", "-c", f"{command} | true"], cwd=ROOT,
                                  env={**os.environ, "PYTHONUNBUFFERED": "1"},
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.stderr, "", command)


class Found(unittest.TestCase):
    def test_commands(self) -> None:
        text = ("See `dat-info`, `dat-info acme-lo`, `x -y` and `overhead … --tests rate`.\n\n"
                "    dat-perf a --json b   # both\n    int x;\n\n"
                "```\n./check --only \\\n  gcc\nmeson test\n```\n")
        self.assertEqual(set(commands_of(text)), {
            "dat-info acme-lo", "overhead … --tests rate", "dat-perf a --json b",
            "./check --only    gcc", "meson test"})


class Stopped(unittest.TestCase):
    def status(self, command: str, patience: float, work: float) -> int | None:
        with subprocess.Popen(["bash", "-c", command], start_new_session=True) as process:
            try:
                return status_of(process, patience, work)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def test_what_ends(self) -> None:
        self.assertEqual(self.status("exit 3", 60, 60), 3)

    def test_what_waits(self) -> None:
        self.assertIsNone(self.status("sleep 60", 0.1, 60))

    def test_what_polls(self) -> None:
        began = time.monotonic()
        self.assertIsNone(self.status("while true; do true; done", 60, 0.2))
        self.assertLess(time.monotonic() - began, 55)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    rest = parser.parse_known_args(namespace=OPTIONS)[1]
    program = unittest.main(argv=[sys.argv[0], *rest], exit=False)
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
