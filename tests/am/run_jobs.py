#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Run the programs of tests/am as jobs, and judge how the jobs end.

Every job has a time limit. Processes left over afterwards are found by a variable in its
environment, counted as an error, and ended. Where a launcher is missing, the test skips (status
77).
"""

import argparse
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

SKIP = 77
MARK = "DAPL_AM_TEST_JOB"
# What the exits are: number, name; the job's exit code is the number.
EXITS = {
    1: "collective",
    2: "return from main",
    3: "one rank, others in a barrier",
    4: "signal to one, its handler of SIGQUIT ends the job",
    5: "one rank, others spin",
    6: "between the set-up steps, all",
    7: "between the set-up steps, one",
    8: "one returns from main, others in a barrier",
    9: "one returns from main, others spin",
    10: "from handlers on all",
    11: "from a handler on one",
    12: "from a handler of a message to itself",
    13: "from N requests at once",
    14: "signal to one, no handler of SIGQUIT",
    15: "between the set-up steps, one, others about to exchange",
    16: "signal to one, others before, in and after the last exchange",
    17: "one rank, beside another user of PMIx in each",
    18: "one returns from main, and crashes in a destructor",
    19: "one crashes while the job ends",
    51: "all threads of all ranks",
    52: "one thread, others in a barrier of threads",
    53: "one thread, others spin",
    54: "one thread, others poll",
    55: "one thread, others send all kinds",
}
# The exits whose exit code differs from their number.
CODES = {14: 128 + signal.SIGTERM, 17: 0, 18: 128 + signal.SIGSEGV, 19: 128 + signal.SIGSEGV}
# Exits in which ranks other than the ending one have to see SIGQUIT.
SEE_SIGQUIT = {3, 5, 8, 9, 11, 12}


# What a mad rank does, and rank 0's words about it; the job's exit code is 1.
MALFORMED = "a malformed message of rank 1"
MAD = {
    "filled-of-nothing": MALFORMED,
    "filled-stale": MALFORMED,
    "filled-elsewhere": MALFORMED,
    "reply-without-credit": MALFORMED,
    "barrier-of-nothing": MALFORMED,
    "barrier-round": MALFORMED,
    "barrier-as-reply": MALFORMED,
    "too-many-credits": MALFORMED,
    "unknown-category": MALFORMED,
    "fill-of-nothing": MALFORMED,
    "fill-outside": MALFORMED,
    "short-with-payload": MALFORMED,
    "accepts-without-proof": "does not know the secret of the job",
    "leaves-without-proof": "rank 1 did not answer the request to end",
}
# The cases with another exit code: rank 0 has ended the job, but not in order.
MAD_CODES = {"leaves-without-proof": 0}


class Job:
    """One run of a program by a launcher.

    Launchers keep their sessions in TMPDIR, and one that was killed leaves its own behind, which
    another with that process id takes for its own: each job has a folder to itself.
    """

    def __init__(self, command, limit, env):
        self.mark = uuid.uuid4().hex
        self.limit = limit
        with tempfile.TemporaryDirectory(prefix="dapl-am-", dir="/tmp",
                                         ignore_cleanup_errors=True) as sessions:
            self.run(command, dict(env, TMPDIR=sessions, **{MARK: self.mark}))

    def run(self, command, env):
        started = time.monotonic()
        self.process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True)
        output = self.wait()
        self.seconds = time.monotonic() - started
        self.output = output.decode(errors="replace")
        self.code = self.process.returncode
        self.orphans = self.settle()

    def wait(self):
        """@return its output"""
        try:
            output, _ = self.process.communicate(timeout=self.limit)
            self.hung = False
        except subprocess.TimeoutExpired:
            self.hung = True
            for pid in self.members():
                end(pid)
            end(self.process.pid)
            output, _ = self.process.communicate()
        return output

    def members(self):
        """All processes with our mark: the launcher, its ranks, and their children."""
        found = []
        wanted = f"{MARK}={self.mark}".encode()
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                pass  # it has ended, or is not ours
        return found

    def settle(self):
        """The processes that are still there a second after the launcher has ended."""
        left = []
        for _ in range(20):
            left = self.members()
            if not left:
                return []
            time.sleep(0.05)
        for pid in left:
            end(pid)
        return left


def end(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


# Seconds in which a launcher without ranks has to end: enough on a busy machine. Without this limit
# most of the time of a run is spent waiting for launchers that hang.
LAUNCHER_ALONE = 10


class KilledJob(Job):
    """A job of which the launcher, or a rank, is killed after some seconds."""

    def __init__(self, command, limit, env, victim, after):
        self.victim, self.after = victim, after
        super().__init__(command, limit, env)

    def wait(self):
        time.sleep(self.after)
        ranks = [pid for pid in self.members() if "PMIX_RANK" in variables(pid)]
        self.killed = self.process.pid if self.victim == "launcher" else (
            random.choice(ranks) if ranks else None)
        for pid in [self.killed] if self.killed else self.members():
            end(pid)
        # What the ranks have written may come through a pipe that a rank holds: not waited for.
        # mpirun of Open MPI 4.1.4 may hang by itself as it ends: that is not waited for long.
        until = time.monotonic() + self.limit
        alone_until = until
        while (left := self.members()) and time.monotonic() < min(until, alone_until):
            if left != [self.process.pid]:
                alone_until = until
            elif alone_until == until:
                alone_until = time.monotonic() + LAUNCHER_ALONE
            time.sleep(0.02)
        self.only_launcher = left == [self.process.pid]
        self.hung = bool(left) and not self.only_launcher
        for pid in left:
            print(f"still there: {pid} {name_of(pid)}", flush=True)
            end(pid)
        return self.process.communicate()[0]


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "(has ended meanwhile)"


def variables(pid):
    """The names in a process's environment; none if it has ended."""
    try:
        found = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return set()
    return {item.partition(b"=")[0].decode(errors="replace") for item in found}


class Mpirun:
    name = "mpirun"

    def __enter__(self):
        if not shutil.which("mpirun"):
            skip("mpirun is missing (Debian: openmpi-bin)")
        return self

    def __exit__(self, *_):
        pass

    def command(self, ranks, program):
        return ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
                "-n", str(ranks), *program]


class Srun:
    """A Slurm of one node, as long as the test runs.

    Its slurmd wants a file system at /sys/fs/cgroup, and its slurmctld an interface with an address
    other than 127.0.0.1: it looks names up with AI_ADDRCONFIG. `ip netns exec` takes away both.
    """
    name = "srun"

    def __enter__(self):
        for needed in ("srun", "slurmctld", "slurmd", "munged"):
            if not shutil.which(needed, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
                skip(f"{needed} is missing (Debian: slurmctld slurmd slurm-client "
                     "slurm-wlm-basic-plugins munge)")
        if os.geteuid() != 0:
            skip("Slurm's daemons are started as root")
        self.folder = tempfile.TemporaryDirectory(prefix="dapl-am-slurm-", dir="/tmp")
        self.daemons = []
        try:
            self.start()
            types = subprocess.run(["srun", "--mpi=list"], env=self.env, timeout=30, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
            if "pmix" not in types:
                skip("this Slurm has no plugin for PMIx")
        except BaseException:  # a skip too: the daemons that have started are not left over
            self.__exit__()
            raise
        return self

    def start(self):
        where = pathlib.Path(self.folder.name)
        where.chmod(0o755)
        host = os.uname().nodename.split(".")[0]
        for part in ("state", "spool", "munge"):
            (where / part).mkdir()
        key = where / "munge" / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        shutil.chown(where / "munge", "munge", "munge")
        shutil.chown(key, "munge", "munge")
        (where / "munge").chmod(0o755)
        self.socket = where / "munge" / "socket"
        munge = where / "munge"
        port = 20000 + os.getpid() % 20000
        self.conf = where / "slurm.conf"
        self.conf.write_text("\n".join([
            "ClusterName=test", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={port}",
            f"SlurmdPort={port + 1}", "AuthType=auth/munge", f"AuthInfo=socket={self.socket}",
            "CredType=cred/munge", "SlurmUser=root", "SlurmdUser=root",
            f"StateSaveLocation={where}/state", f"SlurmdSpoolDir={where}/spool",
            f"SlurmctldPidFile={where}/slurmctld.pid", f"SlurmdPidFile={where}/slurmd.pid",
            f"SlurmctldLogFile={where}/slurmctld.log", f"SlurmdLogFile={where}/slurmd.log",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "MpiDefault=pmix",
            "ReturnToService=2", "SwitchType=switch/none", "SelectType=select/cons_tres",
            "JobAcctGatherType=jobacct_gather/none",
            f"NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()}",
            f"PartitionName=all Nodes={host} Default=YES OverSubscribe=FORCE:128 State=UP", ""]))
        self.env = dict(os.environ, SLURM_CONF=str(self.conf),
                        PATH=os.environ["PATH"] + ":/usr/sbin:/sbin")
        self.disable_cgroups(where)
        self.daemon(["setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged",
                     "--foreground", f"--socket={self.socket}", f"--key-file={key}",
                     f"--pid-file={munge}/pid", f"--log-file={munge}/log",
                     f"--seed-file={munge}/seed"])
        self.await_that(self.socket.exists, "munged")
        self.daemon(["slurmctld", "-D", "-f", str(self.conf)])
        self.daemon(["slurmd", "-D", "-f", str(self.conf)])
        self.await_that(self.idle, "Slurm")

    def disable_cgroups(self, where):
        """slurmd looks for them since 23.11, and earlier versions do not know the word."""
        version = subprocess.run(["slurmd", "-V"], env=self.env, capture_output=True, text=True,
                                 timeout=30).stdout
        found = re.search(r"(\d+)\.(\d+)", version)
        if found and (int(found[1]), int(found[2])) >= (23, 11):
            (where / "cgroup.conf").write_text("CgroupPlugin=disabled\n")

    def daemon(self, command):
        self.daemons.append(subprocess.Popen(
            command, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True))

    def await_that(self, condition, what):
        until = time.monotonic() + 30
        while time.monotonic() < until and all(each.poll() is None for each in self.daemons):
            if condition():
                return
            time.sleep(0.1)
        logs = [pathlib.Path(self.folder.name) / name
                for name in ("munge/log", "slurmctld.log", "slurmd.log")]
        skip("\n".join([f"{what} does not start here",
                        *(log.read_text()[-2000:] for log in logs if log.exists())]))

    def idle(self):
        try:
            state = subprocess.run(["sinfo", "-h", "-o", "%t"], env=self.env, capture_output=True,
                                   text=True, timeout=5)
        except subprocess.TimeoutExpired:  # it waits for slurmctld
            return False
        return state.stdout.strip() == "idle"

    def command(self, ranks, program):
        return ["env", f"SLURM_CONF={self.conf}", "srun", "--mpi=pmix", "--overcommit",
                "--kill-on-bad-exit=0", "-n", str(ranks), *program]

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.folder.cleanup()


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIP)


def judge(what, job, code, problems=()):
    """Prints one line, and why where the job did not end as it has to."""
    found = list(problems)
    if job.hung:
        found.append(f"not over after {job.limit} s")
    elif job.code != code:
        found.append(f"exit code {job.code}, not {code}")
    if job.code == SKIP and code != SKIP:
        found.append("the launcher has not started the job: mpirun of Open MPI 6 ends with 77 where it "
                     "lacks slots, which is no reason to skip")
    if job.orphans:
        found.append(f"processes left: {job.orphans}")
    # The launcher and its PMIx have lines of their own while ranks end, or when it is killed.
    ours = re.sub(r"^.*(PMIX ERROR: |(ORTE|PRTE)_ERROR_LOG: ).*$", "", job.output, flags=re.M)
    for word in ("ERROR", "Sanitizer"):
        if word in ours:
            found.append(f"{word} in its output")
    print(f"{'FAILED' if found else 'ok':6} {job.seconds:5.1f} s  {what}"
          + "".join(f"\n         {line}" for line in found), flush=True)
    if found:
        print(job.output[-4000:], flush=True)
    return not found


def environment(args):
    return dict(os.environ, DAPL_AM_ADAPTER=args.adapter, **dict(
        item.split("=", 1) for item in args.set))


def run_exits(launcher, args):
    good = True
    env = environment(args)
    for number, name in EXITS.items():
        if args.only and number not in args.only:
            continue
        for turn in range(args.repeat):
            first = turn % args.ranks
            job = Job(launcher.command(args.ranks, [args.program, str(number), str(first)]),
                      args.limit, env)
            problems = []
            if number in SEE_SIGQUIT and "SIGQUIT" not in job.output:
                problems.append("no rank saw SIGQUIT")
            # A launcher that was told to end the job does so with SIGKILL.
            if launcher.name == "mpirun" and job.output.count("flushed") != args.ranks:
                problems.append(f"{job.output.count('flushed')} of {args.ranks} ranks flushed "
                                "their output")
            good &= judge(f"{number}: {name} (rank {first})", job, CODES.get(number, number),
                          problems)
    return good


def run_failures(launcher, args):
    env = dict(environment(args), DAPL_AM_EXIT_TIMEOUT="3000")
    stopped = Job(launcher.command(2, [args.program, "21", "0"]), args.limit, env)
    named = [] if "rank 1 did not answer" in stopped.output else ["no message names rank 1"]
    good = judge("a rank stands still (SIGSTOP), another one ends the job", stopped, 21, named)
    killed = Job(launcher.command(3, [args.program, "22", "1"]), args.limit, env)
    named = [] if "rank 1" in killed.output else ["no message names rank 1"]
    return good & judge("a rank is killed (SIGKILL), the others wait for it", killed, 137, named)


def run_settings(launcher, args):
    """Jobs that cannot work: each ends by itself, and says why."""
    def two(first, second):
        # Not as two programs of one job: mpirun of Open MPI 5.0.7 crashes for them.
        choose = f'[ "$PMIX_RANK" = 0 ] && export {first} || export {second}; exec "$0"'
        return launcher.command(2, ["sh", "-c", choose, args.program])

    env = dict(environment(args), DAPL_AM_SETUP_TIMEOUT="2000")
    one = {name: value for name, value in env.items() if not name.startswith(("PMI", "OMPI"))}
    cases = [
        ("credits", two("DAPL_AM_CREDITS=100", "DAPL_AM_CREDITS=2"), 90, env,
         "rank 1 has DAPL_AM_CREDITS 2, rank 0 has 100"),
        ("barriers", two("DAPL_AM_PUT_BARRIER=1", "X=1"), 90, env,
         "rank 1 has DAPL_AM_PUT_BARRIER 0, rank 0 has 1"),
        ("a rank never joins", launcher.command(3, [args.program, "never-joins"]), 90, env,
         "rank 1 has not joined within 2000 ms"),
        ("a rank never attaches", launcher.command(3, [args.program, "never-attaches"]), 90, env,
         "rank 1 has not joined within 2000 ms"),
    ]
    if args.other:
        cases.append(("adapters", two(f"DAPL_AM_ADAPTER={args.adapter}",
                                      f"DAPL_AM_ADAPTER={args.other}"), 90, env,
                      f"rank 1 is on adapter {args.other}"))
    alone = [args.program, "alone"]
    for variables_of in ("PMI_RANK=1 PMI_SIZE=4", "SLURM_NTASKS=4 SLURM_STEP_ID=0", "FLUX_JOB_SIZE=4",
                         "OMPI_COMM_WORLD_SIZE=4"):
        cases.append((variables_of, ["env", *variables_of.split(), *alone], 0, one,
                      "a launcher has started 4 processes"))
    cases.append(("PMIX_RANK alone", ["env", "PMIX_RANK=1", *alone], 0, one, "has PMIX_RANK, but"))
    good = True
    for name, command, code, its_env, said in cases:
        job = Job(command, args.limit, its_env)
        good &= judge(name, job, code, [] if said in job.output else [f"nobody says: {said}"])
    for harmless in ("SLURM_NTASKS=4", "PMI_SIZE=1", "X=1"):
        job = Job(["env", harmless, *alone], args.limit, one)
        good &= judge(harmless, job, 0, ["it says something"] if "dapl-am:" in job.output else [])
    return good


def run_mad(launcher, args):
    env = dict(environment(args), DAPL_AM_CONNECT_TIMEOUT="1000", DAPL_AM_EXIT_TIMEOUT="3000")
    good = judge("a rank that is not mad",
                 Job(launcher.command(2, [args.program]), args.limit, env), 0)
    for case, said in MAD.items():
        if args.case and case not in args.case:
            continue
        job = Job(launcher.command(2, [args.program, case]), args.limit, env)
        good &= judge(case, job, MAD_CODES.get(case, 1),
                      [] if re.search(f"rank 0: .*{said}", job.output) else [f"rank 0 does not say: {said}"])
    return good


def run_kills(launcher, args):
    """Kills somebody at any moment: the job is over soon, and nothing is left."""
    good = True
    judged = turn = failed = 0
    while judged < args.repeat and turn < 2 * args.repeat:
        victim = ("launcher", "rank")[judged % 2]
        after = random.uniform(0, args.within)
        turn += 1
        job = KilledJob(launcher.command(args.ranks, [args.program, str(23 + judged // 2 % 2)]),
                        args.limit, environment(args), victim, after)
        if job.killed is None:
            continue  # no rank was there yet
        # mpirun of Open MPI 4.1.4 may hang or crash by itself as it ends.
        crashed = victim == "rank" and job.code == -signal.SIGSEGV and not job.orphans
        if job.only_launcher or crashed:
            print(f"        the launcher itself {'crashes' if crashed else 'hangs'}, without ranks,"
                  f" after {after:.3f} s")
            failed += 1
            continue
        judged += 1
        good &= judge(f"{args.ranks} ranks, the {victim} killed after {after:.3f} s", job,
                      -signal.SIGKILL if victim == "launcher" else 128 + signal.SIGKILL)
    print(f"{judged} of {turn} moments judged; at {failed} the launcher itself failed, at "
          f"{turn - judged - failed} there was no rank yet")
    return good and 2 * judged >= args.repeat


def run_memory(launcher, args):
    """What a process needs for each rank that it does not talk to."""
    medians = []
    for ranks in (2, 66):
        job = Job(launcher.command(ranks, [args.program, "30"]), args.limit, environment(args))
        found = [int(n) for n in re.findall(r"^memory (\d+)$", job.output, re.M)]
        if not judge(f"{ranks} ranks", job, 0, [] if len(found) == ranks else
                     [f"{len(found)} ranks told of their memory"]):
            return False
        medians.append(statistics.median(found))
    each = (medians[1] - medians[0]) / 64
    print(f"{each:.0f} bytes for each unused peer; the limit is 4096")
    return each <= 4096


def run_program(launcher, args):
    job = Job(launcher.command(args.ranks, [args.program, *args.arguments]), args.limit,
              environment(args))
    # A job that was ended by somebody else may say 0, too.
    said = job.output.count(args.each) if args.each else args.ranks
    good = judge(f"{pathlib.Path(args.program).name} with {args.ranks} ranks", job, 0,
                 [] if said == args.ranks else [f"{said} of them say \"{args.each}\""])
    if good and args.show:
        print(job.output)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["program", "exits", "failures", "kills", "mad", "memory", "settings"])
    parser.add_argument("program")
    parser.add_argument("--pass", action="append", default=[], dest="arguments",
                        help="an argument of the program, as --pass=ARGUMENT")
    parser.add_argument("--launcher", choices=["mpirun", "srun"], default="mpirun")
    parser.add_argument("--adapter", default="soft-lo")
    parser.add_argument("--other", help="an adapter that cannot connect to it, for settings")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=1, help="of each exit; kills")
    parser.add_argument("--only", type=int, action="append", help="this exit")
    parser.add_argument("--case", action="append", help="this case of a mad rank")
    parser.add_argument("--within", type=float, default=1.5,
                        help="seconds in which somebody is killed")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one job")
    parser.add_argument("--set", action="append", default=[], help="VARIABLE=value for the ranks")
    parser.add_argument("--each", help="what each rank of a good job prints")
    parser.add_argument("--show", action="store_true", help="print the output of a good job")
    args = parser.parse_args()
    with {"mpirun": Mpirun, "srun": Srun}[args.launcher]() as launcher:
        good = {"program": run_program, "exits": run_exits, "failures": run_failures, "kills": run_kills,
                "mad": run_mad, "memory": run_memory, "settings": run_settings}[args.what](launcher, args)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
