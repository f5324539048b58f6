# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Run foreign DAT programs as server/client pairs and judge them.

The programs are binaries of other projects. Their exit status says little (a failed test
exits with 0), so they are judged by their output. The libraries that a process really used are read
from its memory map while it runs; for a process that ends too soon for that, they are read from the
dynamic loader's log.
"""

import contextlib
import dataclasses
import errno
import os
import pathlib
import pty
import pwd
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tty

import sanitizers
import two_hosts

# How long the other side of a pair may go on after its peer has finished.
GRACE_SECONDS = 30.0
# How long to wait for someone else's program to leave a port that a case needs.
BUSY_SECONDS = 120.0
# Time to wait for a killed process; a process that a driver holds in the kernel may not end.
KILL_SECONDS = 5.0
# A process that has not shown its libraries yet is looked at this often, in seconds.
SAMPLE_SECONDS = 0.01

# One pair at a time in a network namespace: the programs' side channel has one fixed port. The name
# of an abstract socket, which is as far seen, and belongs to no user and no folder.
LOCK_NAME = "dapl-clients"

# Patterns that may not appear, whatever the program.
ALWAYS_FORBIDDEN = [
    r"Assertion .* failed",
    r"terminate called",
    r"stack smashing detected",
    r"double free|corrupted (double-linked|size)|free\(\): invalid|malloc\(\): ",
    r"symbol lookup error|undefined symbol|no version information available",
]


@dataclasses.dataclass(frozen=True)
class Listen:
    """Ready when the process listens on this TCP port."""

    port: int


@dataclasses.dataclass(frozen=True)
class Prints:
    """Ready when the process has printed this."""

    pattern: str


@dataclasses.dataclass(frozen=True)
class Part:
    """One process of a case: its command line and what its output must and must not hold."""

    argv: tuple[str, ...]
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    benign: tuple[str, ...] = ()  # lines exempt from `forbidden`
    exit_status: int | None = 0  # None: any


@dataclasses.dataclass(frozen=True)
class Case:
    """An optional server, and clients that run one after another while it lives."""

    name: str
    clients: tuple[Part, ...]
    server: Part | None = None
    ready: Listen | Prints | None = None
    ports: tuple[int, ...] = ()  # TCP ports that the programs have built in
    tags: frozenset[str] = frozenset()
    seconds: float = 180.0
    about: str = ""


@dataclasses.dataclass
class Settings:
    """Where the libraries under test are, and how to run what uses them."""

    libdat2_dir: pathlib.Path
    dat_conf: pathlib.Path
    adapter: str
    bin_dir: pathlib.Path | None = None
    preload: tuple[str, ...] = ()
    patience: float = 1.0  # factor on every deadline
    source_root: pathlib.Path | None = None
    log_dir: pathlib.Path | None = None
    hosts: two_hosts.TwoHosts | None = None  # None: all run on this one
    server_user: str = ""  # empty: ours

    @property
    def libdat2(self) -> pathlib.Path:
        return (self.libdat2_dir / "libdat2.so.2").resolve()

    @property
    def foreign_libdat2(self) -> bool:
        """Whether it is the system's: then its bugs and leaks are not ours."""
        return any(self.libdat2.is_relative_to(folder) for folder in ("/usr/lib", "/lib"))


@dataclasses.dataclass
class Result:
    """What became of one case."""

    name: str
    seconds: float
    reasons: list[str]  # empty: passed
    outputs: dict[str, str]
    foreign_findings: list[str]

    @property
    def passed(self) -> bool:
        return not self.reasons

    @property
    def cause(self) -> str:
        """The one reason that tells most: printed errors come before missing lines."""
        telling = (" died of ", ": printed ", "Sanitizer", "runtime error")
        return next((reason for word in telling for reason in self.reasons if word in reason),
                    self.reasons[0] if self.reasons else "")


def listeners(port: int, process: int) -> set[str]:
    """The sockets on a process's host that listen on this TCP port, as /proc names them."""
    found = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{process}/net", table).read_text().splitlines()[1:]:
                fields = line.split()
                if int(fields[1].rpartition(":")[2], 16) == port and fields[3] == "0A":
                    found.add(f"socket:[{fields[9]}]")
    return found


def is_taken(port: int) -> bool:
    """No program can listen on this TCP port, because of a listener or of a connection."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("", port))
        except OSError:
            return True
    return False


def program_path(name: str, bin_dir: pathlib.Path | None) -> str | None:
    """The full path of a program, from the given folder only if there is one."""
    return shutil.which(name, path=str(bin_dir) if bin_dir else None)


def conf_fields(line: str) -> list[str]:
    """The fields of one dat.conf line: blanks separate, quotes group, backslash escapes."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    lexer.quotes = '"'
    try:
        return list(lexer)
    except ValueError:
        return []


def providers_of(dat_conf: pathlib.Path, adapter: str) -> set[str]:
    """The libraries which dat.conf names for an adapter, as real paths or bare file names."""
    libraries = set()
    for line in dat_conf.read_text().splitlines():
        fields = conf_fields(line)
        if len(fields) >= 7 and fields[0] == adapter:
            library = fields[4]
            libraries.add(os.path.realpath(library) if "/" in library else library)
    return libraries


# ---------------------------------------------------------------------------------------------
# One process
# ---------------------------------------------------------------------------------------------


def group_lives(group: int) -> bool:
    """Whether any process of the group has not ended; who has, may still wait for its parent."""
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, _, its_group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
                if int(its_group) == group and state != "Z":
                    return True
    return False


class Process:
    """A running program, its output so far, and the libraries that it was seen to map.

    Its output goes to a pseudo terminal: on a pipe these programs would keep it in a buffer, and
    with it the line that says they are ready, or why they crash.
    """

    def __init__(self, part: Part, environment: dict[str, str], bin_dir: pathlib.Path | None,
                 loader_log: pathlib.Path, prefix: tuple[str, ...] = ()):
        self.part = part
        self.text = ""
        self.status: int | None = None
        self.mapped: set[str] = set()
        self._loader_log = loader_log
        master, slave = pty.openpty()
        tty.setraw(slave)
        executable = program_path(part.argv[0], bin_dir) or part.argv[0]
        self._started = time.monotonic()
        try:
            self._popen = subprocess.Popen(
                [*prefix, executable, *part.argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=slave,
                stderr=slave,
                env={**environment, "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(loader_log)},
                start_new_session=True,
            )
        except OSError:
            os.close(master)
            raise
        finally:
            os.close(slave)
        self._master: int | None = master

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def running(self) -> bool:
        return self.status is None

    @property
    def age(self) -> float:
        return time.monotonic() - self._started

    def fileno(self) -> int:
        return self._master if self._master is not None else -1

    @property
    def readable(self) -> bool:
        return self._master is not None

    def read(self) -> None:
        """Read new output; the end of the terminal shows as an error."""
        try:
            chunk = os.read(self._master, 65536)
        except OSError:
            chunk = b""
        if chunk:
            self.text += chunk.decode(errors="replace")
        else:
            self._close()

    def sample(self) -> None:
        """Look which DAT libraries are mapped at this moment."""
        with contextlib.suppress(OSError):
            with open(f"/proc/{self.pid}/maps", errors="replace") as maps:
                for line in maps:
                    if "/libda" not in line:
                        continue
                    self._note(line.split(maxsplit=5)[-1].removesuffix(" (deleted)\n"))

    def read_loader_log(self) -> None:
        """Find the DAT libraries that the dynamic loader started in a process that has ended."""
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"{self._loader_log}.{self.pid}").read_text(
                    errors="replace").splitlines():
                if "calling init: " in line and "/libda" in line:
                    self._note(line.partition("calling init: ")[2])

    def _note(self, path: str) -> None:
        self.mapped.add(os.path.realpath(path.strip()))

    def poll(self) -> None:
        """Note the exit of the process, once all of its output is here."""
        if self.running and self._popen.poll() is not None:
            self._drain()
            self.status = self._popen.returncode

    def kill(self) -> None:
        """End the process and everything that it started, and wait until they have ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()
        give_up = time.monotonic() + KILL_SECONDS
        while group_lives(self.pid) and time.monotonic() < give_up:
            time.sleep(0.001)
        self._drain()
        self.status = self._popen.returncode
        self._close()

    def listens_on(self, port: int) -> bool:
        """Whether this very process has a listening TCP socket on the port."""
        sockets = listeners(port, self.pid)
        with contextlib.suppress(OSError):
            for descriptor in pathlib.Path(f"/proc/{self.pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(descriptor) in sockets:
                        return True
        return False

    def backtrace(self) -> str:
        """Where each thread is, for a hang: from gdb, or from the kernel if there is no gdb."""
        if shutil.which("gdb"):
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                answer = subprocess.run(
                    ["gdb", "-batch", "-nx", "-p", str(self.pid), "-ex", "thread apply all bt 16"],
                    capture_output=True, text=True, errors="replace", timeout=30,
                    stdin=subprocess.DEVNULL, check=False,
                )
                lines = answer.stdout.splitlines()
                return "\n".join(line for line in lines if line.startswith(("#", "Thread")))
        lines = []
        with contextlib.suppress(OSError):
            for task in sorted(pathlib.Path(f"/proc/{self.pid}/task").iterdir()):
                where = (task / "wchan").read_text() or "running"
                lines.append(f"thread {task.name} ({(task / 'comm').read_text().strip()}): {where}")
        return "\n".join(lines)

    def _drain(self) -> None:
        while self.readable and select.select([self], [], [], 0)[0]:
            self.read()

    def _close(self) -> None:
        if self._master is not None:
            os.close(self._master)
            self._master = None


# ---------------------------------------------------------------------------------------------
# One case
# ---------------------------------------------------------------------------------------------


class Run:
    """One execution of one case."""

    def __init__(self, case: Case, settings: Settings):
        self._case = case
        self._settings = settings
        self._providers = providers_of(settings.dat_conf, settings.adapter)
        self._processes: dict[str, Process] = {}
        self._reasons: list[str] = []
        self._hang_traces: dict[str, str] = {}
        self._began = time.monotonic()
        self._folder = tempfile.TemporaryDirectory()

    def execute(self) -> Result:
        """Run the case to its end; no process is left behind, whatever happens."""
        with self._folder:
            try:
                self._drive()
            finally:
                for process in self._processes.values():
                    if process.running:
                        process.kill()
            foreign = self._judge()
        return Result(
            name=self._case.name,
            seconds=time.monotonic() - self._began,
            reasons=self._reasons,
            outputs={name: self._shown(name) for name in self._processes},
            foreign_findings=foreign,
        )

    def _drive(self) -> None:
        if not self._providers:
            self._reasons.append(
                f"{self._settings.dat_conf} has no adapter {self._settings.adapter}")
            return
        if not self._ports_free():
            return
        server = None
        if self._case.server:
            server = self._start("server", self._case.server)
            if not server or not self._wait_ready(server):
                return
        for number, part in enumerate(self._case.clients):
            name = "client" if number == 0 else f"client {number + 1}"
            client = self._start(name, part)
            if not client or not self._wait_client(name, client, server):
                return
        if server and not self._pump(lambda: not server.running, self._after(GRACE_SECONDS)):
            self._hang("server", f"did not finish within {GRACE_SECONDS:.0f} s of its client")

    def _ports_free(self) -> bool:
        """Wait for programs that run outside this runner, by hand say, and use these ports."""
        if self._settings.hosts:
            return True  # the hosts run nothing else
        limit = self._after(BUSY_SECONDS)
        for port in self._case.ports:
            while is_taken(port):
                if time.monotonic() > limit:
                    self._reasons.append(f"TCP port {port} is taken by another program")
                    return False
                time.sleep(0.1)
        return True

    def _start(self, name: str, part: Part) -> Process | None:
        try:
            process = Process(part, self._environment(), self._settings.bin_dir,
                              pathlib.Path(self._folder.name, "loader"), self._prefix(name))
        except OSError as error:
            self._reasons.append(f"{name}: cannot start {part.argv[0]}: {error.strerror or error}")
            return None
        self._processes[name] = process
        return process

    def _prefix(self, name: str) -> tuple[str, ...]:
        hosts, user = self._settings.hosts, self._settings.server_user
        prefix: tuple[str, ...] = ()
        if hosts is not None:
            prefix = two_hosts.enter(hosts.server if name == "server" else hosts.client)
        if user and name == "server":
            pathlib.Path(self._folder.name).chmod(0o777)  # lets the loader write its log there
            known = pwd.getpwnam(user)
            prefix += ("setpriv", f"--reuid={known.pw_uid}", f"--regid={known.pw_gid}",
                       "--clear-groups", "--")
        return prefix

    def _environment(self) -> dict[str, str]:
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("DAT_CONF", "LD_PRELOAD")}
        environment["LD_LIBRARY_PATH"] = str(self._settings.libdat2_dir)
        environment["DAT_OVERRIDE"] = str(self._settings.dat_conf)
        if self._settings.preload:
            environment["LD_PRELOAD"] = ":".join(self._settings.preload)
            environment.update(sanitizers.environment(environment))
        return environment

    def _after(self, seconds: float) -> float:
        return time.monotonic() + seconds * self._settings.patience

    def _deadline(self) -> float:
        return self._began + self._case.seconds * self._settings.patience

    def _wait_ready(self, server: Process) -> bool:
        def ready() -> bool:
            condition = self._case.ready
            if isinstance(condition, Listen):
                return server.listens_on(condition.port)
            return condition is None or re.search(condition.pattern, server.text) is not None

        if not self._pump(lambda: not server.running or ready(), self._deadline()):
            self._hang("server", "did not become ready")
            return False
        if not server.running and not ready():
            self._reasons.append("server: ended before it was ready")
            return False
        return True

    def _wait_client(self, name: str, client: Process, server: Process | None) -> bool:
        """Wait for a client; a client whose server is gone gets only a grace period."""
        def over() -> bool:
            return not client.running or (server is not None and not server.running)

        finished = self._pump(over, self._deadline())
        if finished and client.running:
            limit = min(self._deadline(), self._after(GRACE_SECONDS))
            finished = self._pump(lambda: not client.running, limit)
        if not finished:
            self._hang(name, "did not finish in time")
        return finished

    def _pump(self, done, deadline: float) -> bool:
        """Read outputs and watch processes until done() or the deadline; false: the deadline."""
        while True:
            live = [process for process in self._processes.values() if process.running]
            unseen = [process for process in live if not self._libraries_seen(process)]
            pause = 0.05
            if unseen:
                pause = SAMPLE_SECONDS if min(p.age for p in unseen) < 5.0 else 0.02
            readable = [process for process in live if process.readable]
            for process in select.select(readable, [], [], pause)[0]:
                process.read()
            for process in unseen:
                process.sample()
            for process in live:
                process.poll()
            if done():
                return True
            if time.monotonic() > deadline:
                return False

    def _hang(self, name: str, what: str) -> None:
        self._reasons.append(f"{name}: {what}")
        for other, process in self._processes.items():
            if process.running:
                self._hang_traces[other] = process.backtrace()

    # -- judging ----------------------------------------------------------------------------

    def _is_provider(self, path: str) -> bool:
        """Whether dat.conf names this mapped file, by path or by soname."""
        name = os.path.basename(path)
        return path in self._providers or any(
            "/" not in wanted and (name == wanted or name.startswith(wanted + "."))
            for wanted in self._providers)

    def _libraries_seen(self, process: Process) -> bool:
        return (str(self._settings.libdat2) in process.mapped
                and any(self._is_provider(path) for path in process.mapped))

    def _judge(self) -> list[str]:
        foreign: list[str] = []
        for name, process in self._processes.items():
            if not self._libraries_seen(process):
                process.read_loader_log()
            findings = sanitizers.find(process.text)
            ours, others = sanitizers.split(findings, self._own_frames())
            self._reasons += [f"{name}: {finding.title}" for finding in ours]
            foreign += [f"{name}: {finding.title}" for finding in others]
            self._judge_status(name, process)
            self._judge_output(name, process, sanitizers.strip(process.text))
            self._judge_libraries(name, process)
        return foreign

    def _own_frames(self) -> re.Pattern[str]:
        libraries = [path for path in self._providers]
        if not self._settings.foreign_libdat2:
            libraries.append(str(self._settings.libdat2))
        return sanitizers.own_frames(libraries, self._settings.source_root)

    def _judge_status(self, name: str, process: Process) -> None:
        if name in self._hang_traces:
            return  # killed by us
        status = process.status
        wanted = process.part.exit_status
        if status is not None and status < 0:
            self._reasons.append(f"{name}: died of {signal.Signals(-status).name}")
        elif wanted is not None and status != wanted:
            self._reasons.append(f"{name}: exit status {status}")

    def _judge_output(self, name: str, process: Process, text: str) -> None:
        for pattern in process.part.required:
            if not re.search(pattern, text, re.MULTILINE):
                self._reasons.append(f"{name}: no output matches /{pattern}/")
        benign = [re.compile(pattern) for pattern in process.part.benign]
        forbidden = [re.compile(pattern)
                     for pattern in (*process.part.forbidden, *ALWAYS_FORBIDDEN)]
        bad = [line.strip() for line in text.splitlines()
               if any(pattern.search(line) for pattern in forbidden)
               and not any(pattern.search(line) for pattern in benign)]
        for line in bad[:3]:
            self._reasons.append(f"{name}: printed '{line[:160]}'")
        if len(bad) > 3:
            self._reasons.append(f"{name}: and {len(bad) - 3} more such lines")

    def _judge_libraries(self, name: str, process: Process) -> None:
        wanted = str(self._settings.libdat2)
        registries = {path for path in process.mapped
                      if os.path.basename(path).startswith("libdat2.so")}
        if not registries:
            self._reasons.append(f"{name}: mapped no libdat2")
        for path in sorted(registries - {wanted}):
            self._reasons.append(f"{name}: mapped {path}, not {wanted}")
        providers = {path for path in process.mapped
                     if os.path.basename(path).startswith("libdapl")}
        if not any(self._is_provider(path) for path in providers):
            self._reasons.append(f"{name}: did not map {' or '.join(self._providers)}")
        for path in sorted(providers):
            if not self._is_provider(path):
                self._reasons.append(f"{name}: mapped {path}")

    def _shown(self, name: str) -> str:
        process = self._processes[name]
        lines = [f"$ {shlex.join(process.part.argv)}", process.text.rstrip()]
        if name in self._hang_traces:
            lines += ["-- killed; its threads were here:", self._hang_traces[name]]
        else:
            lines += [f"-- exit status {process.status}"]
        return "\n".join(lines)


@contextlib.contextmanager
def host_lock():
    """Keep other runners of this network namespace away, whoever runs them."""
    with socket.socket(socket.AF_UNIX) as lock:
        said = False
        while not taken(lock, f"\0{LOCK_NAME}"):
            if not said:
                print("waiting: DAT programs of another run use this host's ports (ss -xap shows who "
                      f"has @{LOCK_NAME})", file=sys.stderr, flush=True)
                said = True
            time.sleep(0.1)
        yield


def taken(lock: socket.socket, name: str) -> bool:
    try:
        lock.bind(name)
        return True
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False


def run_case(case: Case, settings: Settings) -> Result:
    """Run one case under the host lock; write its outputs to the log folder if there is one."""
    with host_lock():
        result = Run(case, settings).execute()
    if settings.log_dir:
        settings.log_dir.mkdir(parents=True, exist_ok=True)
        log = settings.log_dir / f"{case.name}.log"
        log.write_text(report(result))
    return result


def report(result: Result) -> str:
    """Everything that is known about a result, for people."""
    lines = [f"{result.name}: {'pass' if result.passed else 'FAIL'}, {result.seconds:.1f} s"]
    lines += [f"  {reason}" for reason in result.reasons]
    lines += [f"  foreign finding, {finding}" for finding in result.foreign_findings]
    for name, text in result.outputs.items():
        lines += [f"--- {name} " + "-" * (70 - len(name)), text]
    lines.append("-" * 75)
    return "\n".join(lines) + "\n"
