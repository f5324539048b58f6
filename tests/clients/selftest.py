#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests of the runner itself, with programs that pass, lie, hang, crash or use another library."""

import _ctypes
import argparse
import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import cases
import run_clients
import runner
import sanitizers
import two_hosts
from runner import Case, Listen, Part, Prints

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from own_port import another_port  # noqa: E402

PASSED = (r"DAPL Test Complete\. PASSED",)


def lives(pid: str) -> bool:
    """False for a zombie as well: a process that has ended and was not reaped yet."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


class World(unittest.TestCase):
    """A folder with libraries to map and a dat.conf that names one library."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        for name in ("dat/libdat2.so.2.0.0", "other/libdat2.so.2", "libdapl-fake.so.2"):
            path = self.root / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"x" * 4096)
        (self.root / "dat/libdat2.so.2").symlink_to("libdat2.so.2.0.0")
        self.conf = self.root / "dat.conf"
        self.conf.write_text(
            "# a comment\n"
            f'fake-lo u2.0 nonthreadsafe default {self.root}/libdapl-fake.so.2 d.2.0 "a \\"b" ""\n'
            f'fake-lo u2.0 threadsafe default {self.root}/libdapl-fake.so.2 d.2.0 "a" ""\n'
            "broken line \"without an end\n")
        runner.GRACE_SECONDS = 20.0
        runner.LOCK_NAME = f"dapl-clients-selftest-{os.getpid()}"
        self.settings = runner.Settings(
            libdat2_dir=self.root / "dat", dat_conf=self.conf, adapter="fake-lo")

    def part(self, role: str, behaviour: str, port: int | None, **more) -> Part:
        argv = (sys.executable, str(HERE / "fake_client.py"), role, behaviour)
        fields = {"required": PASSED, "forbidden": cases.DTEST_FORBIDDEN, **more}
        return Part(argv=argv + ((str(port),) if port else ()), **fields)

    def pair(self, server: str = "pass", client: str = "pass", listen: bool = True,
             seconds: float = 30.0, **more) -> runner.Result:
        port = another_port()
        case = Case(name="fake", server=self.part("server", server, port, **more),
                    clients=(self.part("client", client, port, **more),),
                    ready=Listen(port) if listen else Prints("^ready"), seconds=seconds)
        return runner.run_case(case, self.settings)

    def assertReason(self, result: runner.Result, pattern: str):
        self.assertFalse(result.passed)
        self.assertTrue(any(re.search(pattern, reason) for reason in result.reasons),
                        f"/{pattern}/ not in {result.reasons}")


class Verdicts(World):
    def test_a_good_pair_passes(self):
        self.assertEqual(self.pair().reasons, [])

    def test_readiness_may_be_a_line_of_output(self):
        self.assertEqual(self.pair(listen=False).reasons, [])

    def test_a_failure_with_exit_status_0_fails(self):
        self.assertReason(self.pair(client="fail"), r"client: printed '1: DAPL .* FAILED'")
        self.assertReason(self.pair(server="fail"), r"server: no output matches")

    def test_silence_fails(self):
        self.assertReason(self.pair(client="silent"), "client: no output matches")

    def test_an_exit_status_counts_unless_it_is_waived(self):
        self.assertReason(self.pair(client="status"), "client: exit status 3")
        self.assertEqual(self.pair(client="status", exit_status=None).reasons, [])

    def test_benign_lines_are_exempt(self):
        result = self.pair(client="fail", required=(), benign=("Test Complete",))
        self.assertEqual(result.reasons, [])

    def test_a_crash_fails(self):
        result = self.pair(client="crash")
        self.assertReason(result, "client: died of SIGSEGV")
        self.assertIn("SIGSEGV", result.cause)

    def test_a_missing_program_fails(self):
        case = Case(name="none", clients=(Part(argv=("/nonexistent/program",)),))
        self.assertReason(runner.run_case(case, self.settings), "cannot start")

    def test_an_unknown_adapter_fails(self):
        self.settings.adapter = "nowhere"
        self.assertReason(self.pair(), "has no adapter nowhere")


class Hangs(World):
    def test_a_hanging_client_is_killed_with_its_children(self):
        result = self.pair(client="hang", seconds=15.0)
        self.assertReason(result, "client: did not finish in time")
        child = re.search(r"child (\d+)", result.outputs["client"])[1]
        self.assertFalse(lives(child))
        self.assertIn("ready", result.outputs["server"])
        self.assertIn("its threads were here", result.outputs["client"])

    def test_a_server_that_outlives_its_client_fails(self):
        runner.GRACE_SECONDS = 1.0
        self.assertReason(self.pair(server="hang"), "server: did not finish within")

    def test_a_server_that_never_gets_ready_fails(self):
        self.assertReason(self.pair(server="never-ready", seconds=1.0), "did not become ready")

    def test_a_server_that_ends_early_fails(self):
        self.assertReason(self.pair(server="early-exit"), "ended before it was ready")

    def test_a_listener_of_someone_else_does_not_count(self):
        with socket.create_server(("127.0.0.1", 0)) as foreign:
            port = foreign.getsockname()[1]
            case = Case(name="busy", server=self.part("client", "never-ready", None),
                        clients=(self.part("client", "pass", None),),
                        ready=Listen(port), seconds=1.0)
            self.assertReason(runner.run_case(case, self.settings), "did not become ready")


    def test_a_port_that_stays_taken_fails(self):
        runner.BUSY_SECONDS = 0.3
        with socket.create_server(("127.0.0.1", 0)) as foreign:
            port = foreign.getsockname()[1]
            case = Case(name="taken", clients=(self.part("client", "pass", None),), ports=(port,))
            self.assertReason(runner.run_case(case, self.settings), f"port {port} is taken")

    def test_a_port_that_a_connection_holds_fails(self):
        runner.BUSY_SECONDS = 0.3
        with (socket.create_server(("127.0.0.1", 0)) as server,
              socket.create_connection(server.getsockname()) as foreign):
            port = foreign.getsockname()[1]
            case = Case(name="held", clients=(self.part("client", "pass", None),), ports=(port,))
            self.assertReason(runner.run_case(case, self.settings), f"port {port} is taken")


class Libraries(World):
    def test_another_libdat2_fails(self):
        self.assertReason(self.pair(client="wrong-library"), r"client: mapped .*/other/libdat2")

    def test_an_unseen_provider_fails(self):
        self.assertReason(self.pair(server="no-provider"), "server: did not map .*fake")

    def test_a_process_that_maps_nothing_fails(self):
        case = Case(name="nothing", clients=(Part(argv=("sleep", "0.05")),))
        self.assertReason(runner.run_case(case, self.settings), "client: mapped no libdat2")

    def test_what_is_mapped_is_seen_while_the_program_runs(self):
        self.assertEqual(self.pair(client="unlogged").reasons, [])

    def test_what_ends_too_soon_to_be_seen_is_in_the_log_of_the_loader(self):
        libraries = [self.root / "dat/libdat2.so.2.0.0", self.root / "libdapl-fake.so.2"]
        for library in libraries:
            shutil.copy(_ctypes.__file__, library)  # any shared object will do
        paths = [str(libraries[0].with_name("libdat2.so.2")), str(libraries[1])]
        program = f"import ctypes; [ctypes.CDLL(path) for path in {paths}]"
        case = Case(name="short", clients=(Part(argv=(sys.executable, "-c", program)),))
        with unittest.mock.patch.object(runner.Process, "sample"):
            self.assertEqual(runner.run_case(case, self.settings).reasons, [])

    def test_a_provider_may_be_named_by_soname(self):
        library = self.root / "libdapl-fake.so.2"
        library.rename(self.root / "libdapl-fake.so.2.0.0")
        library.symlink_to("libdapl-fake.so.2.0.0")
        run = runner.Run(Case(name="fake", clients=()), self.settings)
        run._providers = {"libdapl-fake.so.2"}
        self.assertTrue(run._is_provider(str(library.resolve())))
        self.assertFalse(run._is_provider("/x/libdapl-fake.so.22"))

    def test_dat_conf_is_read_with_quotes_and_comments(self):
        self.assertEqual(runner.conf_fields('a b "c d" "e\\"f" # g'), ["a", "b", "c d", 'e"f'])
        self.assertEqual(runner.providers_of(self.conf, "fake-lo"),
                         {str(self.root / "libdapl-fake.so.2")})


class Turns(World):
    def test_another_users_run_waits_and_says_so(self):
        told, tell = os.pipe()
        may, go = os.pipe()
        child = os.fork()  # forks before there is a lock to inherit
        if child == 0:
            self.lock_as_another_user(may, tell)
        os.close(tell)
        with open(told, encoding="utf-8") as said:
            with runner.host_lock():
                os.write(go, b"x")
                self.assertRegex(said.readline(), "^waiting: DAT programs of another run")
                self.assertEqual(os.waitpid(child, os.WNOHANG), (0, 0))
            self.assertEqual(said.read(), "")
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    @staticmethod
    def lock_as_another_user(may: int, tell: int) -> None:
        os.dup2(tell, 2)
        os.close(tell)
        if os.geteuid() == 0:
            os.setuid(65534)
        os.read(may, 1)
        try:
            with runner.host_lock():
                os._exit(0)
        except OSError as error:
            os.write(2, f"{error}\n".encode())
            os._exit(1)


class Findings(World):
    def test_a_finding_of_ours_fails_although_the_test_passed(self):
        self.assertReason(self.pair(client="our-finding"), "client: .*heap-use-after-free")

    def test_a_foreign_finding_is_listed(self):
        result = self.pair(client="foreign-finding")
        self.assertEqual(result.reasons, [])
        self.assertEqual(len(result.foreign_findings), 1)
        self.assertIn("Direct leak of 8", result.foreign_findings[0])

    def test_each_leak_is_judged_for_itself(self):
        text = ("==7==ERROR: LeakSanitizer: detected memory leaks\n\n"
                "Direct leak of 8 byte(s) in 1 object(s) allocated from:\n"
                "    #0 0x1 in malloc (/lib/libasan.so.8+0x1)\n"
                "    #1 0x2 in main (/usr/bin/dtest+0x1)\n\n"
                "Indirect leak of 9 byte(s) in 1 object(s) allocated from:\n"
                "    #0 0x1 in make (/b/libdapl-libfabric.so.2.0.0+0x1)\n\n"
                "SUMMARY: AddressSanitizer: 17 byte(s) leaked in 2 allocation(s).\n"
                "after\n")
        ours, foreign = sanitizers.split(
            sanitizers.find(text), sanitizers.own_frames(["/b/libdapl-libfabric.so.2.0.0"], None))
        self.assertEqual([finding.title[:18] for finding in ours], ["Indirect leak of 9"])
        self.assertEqual([finding.title[:16] for finding in foreign], ["Direct leak of 8"])
        self.assertEqual(sanitizers.strip(text).strip(), "after")

    def test_a_runtime_error_ends_with_its_frames(self):
        text = ("../common/evd.cpp:3:4: runtime error: signed integer overflow\n"
                "    #0 0x1 in ring ../common/evd.cpp:3\n"
                "    #1 0x2 in main (/usr/bin/dtest+0x1)\n\n"
                "1: DAPL Test Complete. PASSED\n")
        ours, _ = sanitizers.split(sanitizers.find(text), sanitizers.own_frames([], None))
        self.assertEqual(len(ours), 1)
        self.assertIn("PASSED", sanitizers.strip(text))

    def test_thread_reports_are_found(self):
        text = ("==================\nWARNING: ThreadSanitizer: data race (pid=1)\n"
                "  Write of size 4 at 0x1 by main thread:\n"
                "    #0 fi_thing <null> (libfabric.so.1+0x1)\n"
                "SUMMARY: ThreadSanitizer: data race in fi_thing\n==================\nend\n")
        ours, foreign = sanitizers.split(sanitizers.find(text), sanitizers.own_frames([], None))
        self.assertEqual((len(ours), len(foreign)), (0, 1))
        self.assertIn("end", sanitizers.strip(text))


class Table(unittest.TestCase):
    def test_names_are_unique_and_every_case_can_be_judged(self):
        for foreign in (False, True):
            every = cases.all_cases(cases.Place("any-lo"), foreign)
            self.assertEqual(len({case.name for case in every}), len(every))
            for case in every:
                self.assertTrue(case.tags, case.name)
                for part in (*case.clients, *([case.server] if case.server else [])):
                    self.assertTrue(part.required, case.name)
                    for pattern in (*part.required, *part.forbidden, *part.benign):
                        re.compile(pattern)

    def test_selection_is_by_name_pattern_and_tag(self):
        every = cases.all_cases(cases.Place("any-lo"))
        names = lambda expression: [case.name for case in run_clients.selected(every, expression)]
        self.assertEqual(names("dtest-p, dtest"), ["dtest", "dtest-p"])
        self.assertIn("dapltest-T-SR", names("dapltest-T-*"))
        self.assertNotIn("dapltest-F-pz", names("@default"))
        self.assertIn("dapltest-F-pz", names("@fft"))
        with self.assertRaises(SystemExit):
            names("no-such-case")

    def test_shares_are_the_whole(self):
        self.assertEqual(run_clients.share("2/3"), (2, 3))
        for wrong in ("", "1", "0/2", "3/2", "1/2/3", "-1/2"):
            with self.assertRaises(argparse.ArgumentTypeError):
                run_clients.share(wrong)
        listed = [subprocess.run([sys.executable, run_clients.__file__, "--list", *more],
                                 capture_output=True, text=True, check=True).stdout.splitlines()
                  for more in ([], ["--share", "1/3"], ["--share", "2/3"], ["--share", "3/3"])]
        self.assertEqual(sorted(listed[0]), sorted(sum(listed[1:], [])))


class Hosts(World):
    def hosts(self) -> two_hosts.TwoHosts:
        hosts = two_hosts.TwoHosts()
        try:
            hosts.__enter__()
        except two_hosts.CannotRun as reason:
            self.skipTest(str(reason))
        self.addCleanup(hosts.__exit__)
        return hosts

    def test_each_reaches_the_other(self):
        hosts = self.hosts()
        for host, peer in ((hosts.server, two_hosts.CLIENT_ADDRESS),
                           (hosts.client, two_hosts.SERVER_ADDRESS)):
            script = ("import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
                      f"s.connect(('{peer}', 9)); print(s.getsockname()[0])")
            told = subprocess.run([*two_hosts.enter(host), sys.executable, "-c", script],
                                  capture_output=True, text=True, check=True).stdout.strip()
            self.assertEqual({told, peer},
                             {two_hosts.SERVER_ADDRESS, two_hosts.CLIENT_ADDRESS})

    def test_adapters_move_to_the_cable(self):
        self.conf.write_text('a-lo u2.0 nonthreadsafe default lib.so x "lo" ""\n'
                             'b-lo u2.0 nonthreadsafe default lib.so x "tcp lo" ""\n'
                             'c u2.0 nonthreadsafe default lib.so x "lo loss=20" ""\n'
                             'd u2.0 nonthreadsafe default lib.so x "eth0" ""\n')
        hosts = two_hosts.TwoHosts()
        copy = hosts.dat_conf(self.conf)
        self.assertEqual([line.split('"')[1] for line in copy.read_text().splitlines()],
                         ["veth0", "tcp veth0", "veth0 loss=20", "eth0"])

    def test_a_side_has_a_host_of_its_own(self):
        self.settings.hosts = self.hosts()
        os.environ["FAKE_HOST"] = two_hosts.SERVER_ADDRESS
        self.addCleanup(os.environ.pop, "FAKE_HOST")
        result = self.pair(client="host", server="host")
        self.assertEqual(result.reasons, [])
        spaces = {re.search(r"net:\[\d+\]", text).group() for text in result.outputs.values()}
        self.assertEqual(len(spaces), 2)


class Program(World):
    """run_clients.py as a command, with a folder of fakes in place of the client programs."""

    def run_program(self, *arguments: str) -> tuple[int, str]:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = run_clients.main([
                "--libdat2", str(self.root / "dat"), "--dat-conf", str(self.conf),
                "--adapter", "fake-lo", "--bin-dir", str(self.root / "bin"), *arguments])
        return status, output.getvalue()

    def install_dapltest(self, result: str):
        """A dapltest that runs one functional set."""
        (self.root / "bin").mkdir()
        program = self.root / "bin/dapltest"
        lines = "".join(f"print('Function feature: pz case: {number}\\nResult: {result}')\n"
                        for number in range(3))
        program.write_text(
            f"#!{sys.executable}\n{(HERE / 'fake_client.py').read_text()}".replace(
                "sys.exit(main())", f"map_libraries('pass')\n{lines}time.sleep(2)"))
        program.chmod(0o755)

    def test_a_missing_client_is_a_skip(self):
        (self.root / "bin").mkdir()
        status, output = self.run_program("--select", "dapltest-F-pz")
        self.assertEqual(status, 77)
        self.assertIn("dapl2-utils", output)

    def test_rounds_are_counted_and_written(self):
        self.install_dapltest("PASS")
        report = self.root / "report.json"
        status, output = self.run_program("--select", "dapltest-F-pz", "--rounds", "2",
                                          "--json", str(report), "--log-dir", str(self.root / "l"))
        self.assertEqual((status, output.splitlines()[-1]), (0, "2 passed, 0 failed"),
                         output)
        self.assertEqual(json.loads(report.read_text())["passed"], 2)
        self.assertTrue((self.root / "l/dapltest-F-pz.log").is_file())

    def test_failures_are_counted_and_shown(self):
        self.install_dapltest("FAIL")
        status, output = self.run_program("--select", "dapltest-F-pz")
        self.assertEqual((status, output.splitlines()[-1]), (1, "0 passed, 1 failed"),
                         output)
        self.assertIn("FAIL dapltest-F-pz", output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
