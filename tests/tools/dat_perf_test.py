#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""dat-perf: its output and exit status. The figures themselves are not tested."""

import argparse
import contextlib
import json
import os
import pathlib
import re
import resource
import socket
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from own_port import another_port  # noqa: E402

OPTIONS = argparse.Namespace()
ADAPTER = "ofi-lo"
SVG = "{http://www.w3.org/2000/svg}"


def environment() -> dict[str, str]:
    return {**os.environ, "DAT_OVERRIDE": str(OPTIONS.dat_conf)}


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([OPTIONS.program, *map(str, arguments)], capture_output=True, text=True,
                          env=environment(), timeout=150, check=False)


class Measures(unittest.TestCase):
    def setUp(self) -> None:
        if f"\n{ADAPTER} " not in pathlib.Path(OPTIONS.dat_conf).read_text():
            self.skipTest(f"the build has no {ADAPTER}")
        keep = tempfile.TemporaryDirectory(prefix="dat-perf-")
        self.addCleanup(keep.cleanup)
        self.folder = pathlib.Path(keep.name)

    def test_a_sweep_as_data_and_as_a_plot(self) -> None:
        data, plot = self.folder / "out.json", self.folder / "out.svg"
        done = run(ADAPTER, "--sizes", "1,4K", "--duration", "0.02", "--json", data, "--svg", plot)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        results = json.loads(data.read_text())["results"]
        got = {(each["test"], each["how"], each.get("size")) for each in results}
        wanted = {("connections", "one by one", None)}
        for size in (1, 4096):
            wanted |= {("latency", how, size)
                       for how in ("send, polling", "send, waiting", "RDMA write")}
            wanted |= {("bandwidth", how, size) for how in ("send", "RDMA write", "RDMA read")}
            wanted.add(("rate", "send", size))
        self.assertEqual(got, wanted)
        for each in results:
            self.assertGreater(each["value"], 0, each)
            self.assertEqual(each["value"], float(f"{each['value']:.9g}"))  # no noise behind that
        self.check_plot(plot)
        self.check_bands(plot)

    def test_data_on_standard_output(self) -> None:
        done = run(ADAPTER, "--quick", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(json.loads(done.stdout)["results"]), 2)
        self.assertIn("bandwidth", done.stderr)

    def test_opening_beside_libfabric(self) -> None:
        data = self.folder / "out.json"
        done = run(ADAPTER, "--tests", "open", "--duration", "0.01", "--json", data)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        results = {each["how"]: each for each in json.loads(data.read_text())["results"]}
        self.assertEqual(set(results), {ADAPTER, "libfabric's tcp", "soft-lo"})
        for each in results.values():
            self.assertGreater(each["value"], 0, each)
        own = results["libfabric's tcp"]["value"]
        self.assertNotIn("ratio", results["libfabric's tcp"])
        for adapter in (ADAPTER, "soft-lo"):
            self.assertAlmostEqual(results[adapter]["ratio"], results[adapter]["value"] / own)
        # A program that asks libfabric itself saves little; one that opens soft-lo a lot.
        self.assertLess(results["soft-lo"]["value"], results[ADAPTER]["value"])
        self.assertIn("opening    soft-lo", done.stdout)

    def test_opening_and_another_test(self) -> None:
        done = run("soft-lo", "--tests", "open,connections", "--duration", "0.01", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([each["test"] for each in json.loads(done.stdout)["results"]],
                         ["open", "connections"])

    def test_the_columns_of_perftest(self) -> None:
        done = run(ADAPTER, "--tests", "latency,bandwidth", "--sizes", "4K", "--duration", "0.02",
                   "--perftest", "--json", self.folder / "out.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        heads = [place for place, line in enumerate(lines) if line.startswith(" #bytes")]
        self.assertEqual(len(heads), 6, done.stdout)
        for place in heads:
            names = re.split(r" {2,}|(?<=#bytes) ", lines[place].strip())
            figures = lines[place + 1].split()
            self.assertEqual(len(names), len(figures), done.stdout)
            row = dict(zip(names, map(float, figures)))
            self.assertEqual(row["#bytes"], 64 if "t_avg[usec]" in row else 4096)
            if "t_avg[usec]" in row:
                rising = [row[name] for name in ("t_min[usec]", "t_typical[usec]",
                                                 "99% percentile[usec]", "99.9% percentile[usec]",
                                                 "t_max[usec]")]
                self.assertEqual(rising, sorted(rising))
            else:
                self.assertGreaterEqual(row["BW peak[MB/sec]"], row["BW average[MB/sec]"])
                self.assertAlmostEqual(row["MsgRate[Mpps]"] * 1e6 * 4096 / 2**20,
                                       row["BW average[MB/sec]"], delta=0.02)
        of_send = {each["how"]: each for each in
                   json.loads((self.folder / "out.json").read_text())["results"]}["send, polling"]
        self.assertLessEqual(of_send["quantile_99"], of_send["quantile_999"])
        self.assertLessEqual(of_send["quantile_999"], of_send["worst"])

    def check_plot(self, plot: pathlib.Path) -> None:
        root = xml.etree.ElementTree.parse(plot).getroot()
        self.assertEqual(root.tag, SVG + "svg")
        words = [each.text for each in root.iter(SVG + "text")]
        for word in (ADAPTER, "Latency: half a round trip", "Bandwidth",
                     "Messages per second", "message size", "1 B", "4 KiB",
                     "send, polling", "RDMA read"):
            self.assertIn(word, words)
        # Whoever keeps the picture finds out how it was made.
        self.assertTrue(any(re.match(rf"dat-perf \S+ {ADAPTER} --sizes 1,4K ", word) for word in words), words)
        self.assertTrue(any(word.startswith(socket.gethostname()) for word in words), words)
        self.assertTrue(any(word.endswith("B/s") for word in words), words)
        self.assertTrue(any(word.endswith(" \u00b5s") for word in words), words)
        text = plot.read_text()
        self.assertIn("prefers-color-scheme: dark", text)
        self.assertNotIn("nan", text)
        self.assertNotIn("inf", text.replace("info", ""))
        self.assertNotIn("url(", text)  # no external resources
        self.assertNotIn("href", text)

    def check_bands(self, plot: pathlib.Path) -> None:
        """Around each latency, from the best to the 99 %."""
        root = xml.etree.ElementTree.parse(plot).getroot()
        self.assertIn("shaded: best to 99 %", [each.text for each in root.iter(SVG + "text")])
        paths = [each.attrib for each in root.iter(SVG + "path")]
        bands = [each for each in paths if each.get("class", "").startswith("band ")]
        self.assertEqual(len(bands), 3)
        for band in bands:
            series = band["class"].split()[1]
            line = next(each for each in paths if each.get("class") == f"line {series}"
                        and "h22" not in each["d"])  # the legend has lines, too
            middle, around = (dict[float, list[float]](), dict[float, list[float]]())
            for path, points in ((line, middle), (band, around)):
                for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path["d"]):
                    points.setdefault(float(x), []).append(float(y))
            self.assertEqual(set(middle), set(around))
            for x, (y,) in middle.items():
                below, above = around[x]
                self.assertTrue(above <= y <= below, (band, line))

    def test_several_connections_and_both_directions(self) -> None:
        done = run(ADAPTER, "--tests", "bandwidth,rate", "--threads", "3", "--both-ways", "--sizes",
                   "4K", "--duration", "0.02", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        results = json.loads(done.stdout)["results"]
        one_way = {("bandwidth", how) for how in ("send", "RDMA write", "RDMA read")}
        one_way.add(("rate", "send"))
        self.assertEqual({(each["test"], each["how"]) for each in results},
                         one_way | {(test, f"{how}, both ways") for test, how in one_way})
        for each in results:
            self.assertEqual(each["connections"], 3)
            self.assertGreater(each["value"], 0, each)
        self.assertIn("over 3 connections", done.stderr)

    def test_two_processes(self) -> None:
        port = another_port()
        with subprocess.Popen([OPTIONS.program, "--server", "--port", str(port), ADAPTER],
                              env=environment(), stderr=subprocess.DEVNULL) as server:
            done = run("--client", "127.0.0.1", "--port", port, "--tests", "latency,rate",
                       "--duration", "0.02", ADAPTER)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(server.wait(30), 0)
        self.assertIn("messages/s", done.stdout)

    def test_a_long_measurement_is_named(self) -> None:
        done = run(ADAPTER, "--tests", "rate", "--duration", "3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"\.\.\. message rate, send, 64 B, since \d+ s\n")

    def test_large_messages_are_as_many_as_fit_into_the_duration(self) -> None:
        data = self.folder / "out.json"
        done = run(ADAPTER, "--tests", "latency", "--size", "64M", "--duration", "0.01", "--json",
                   data)
        self.assertEqual(done.returncode, 0, done.stderr)
        samples = [each["samples"] for each in json.loads(data.read_text())["results"]]
        self.assertTrue(samples and max(samples) < 20, samples)  # at 10 GB/s there would be 2
                                                                 # samples


class Server(unittest.TestCase):
    """It serves a client, whoever else connects before."""

    def setUp(self) -> None:
        if f"\n{ADAPTER} " not in pathlib.Path(OPTIONS.dat_conf).read_text():
            self.skipTest(f"the build has no {ADAPTER}")
        self.port = another_port()

    def start(self, *arguments: object) -> None:
        self.server = subprocess.Popen(
            [OPTIONS.program, "--server", "--port", str(self.port), *map(str, arguments), ADAPTER],
            env=environment(), stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.server.communicate)
        self.addCleanup(self.server.kill)
        self.assertIn("waiting for dat-perf --client", self.server.stderr.readline())

    def stranger(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port))
        made.settimeout(30)
        self.addCleanup(made.close)
        return made

    def measure(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return run("--client", "127.0.0.1", "--port", self.port, "--quick", *arguments, ADAPTER)

    def heard(self, stranger: socket.socket) -> bytes:
        try:
            return stranger.recv(1000)
        except ConnectionResetError:
            return b""

    def check_that_it_serves(self) -> list[str]:
        done = self.measure()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = self.server.communicate(timeout=60)[1].splitlines()
        self.assertEqual(self.server.returncode, 0, lines)
        return lines

    def test_a_server_without_descriptors_says_so(self) -> None:
        self.start()
        used = [int(name) for name in os.listdir(f"/proc/{self.server.pid}/fd")]
        resource.prlimit(self.server.pid, resource.RLIMIT_NOFILE, (max(used) + 1, max(used) + 1))
        with contextlib.suppress(ConnectionError):  # it may have ended before the last
            for _ in range(max(used) + 1):
                self.stranger()
        try:
            said = self.server.communicate(timeout=30)[1]
        except subprocess.TimeoutExpired:
            self.fail("the server goes on without a word")
        self.assertIn("accept: Too many open files", said)
        self.assertEqual(self.server.returncode, 1)

    def test_strangers_are_closed_and_named(self) -> None:
        self.start()
        self.stranger().close()
        self.assertIn("closed a connection from", self.server.stderr.readline())
        other = self.stranger()
        other.sendall(b"GET / HTTP/1.1\r\n\r\n")
        self.assertEqual(self.heard(other), b"")
        line = self.server.stderr.readline()
        self.assertIn(f"127.0.0.1 port {other.getsockname()[1]}: it is no dat-perf --client", line)
        other = self.stranger()
        other.sendall(b"datperf0" + 100 * b"\1")
        self.assertEqual(self.heard(other), b"")
        self.assertIn("a different version of dat-perf", self.server.stderr.readline())
        self.assertEqual(self.check_that_it_serves(), [])

    def test_silent_ones_delay_nobody_and_are_closed(self) -> None:
        self.start("--wait", "60")
        silent = self.stranger()
        partial = self.stranger()
        partial.sendall(b"datper")
        self.assertEqual((self.heard(silent), self.heard(partial)), (b"", b""))
        for _ in range(2):
            self.assertIn("it said nothing that a client does", self.server.stderr.readline())
        crowd = [self.stranger() for _ in range(100)]
        lines = self.check_that_it_serves()
        self.assertLess(len(lines), 25)
        self.assertEqual(len(crowd), 100)

    def test_what_a_client_may_ask_for(self) -> None:
        self.start("--max-size", "128K")
        done = self.measure("--sizes", "256K")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("allows 128 KiB", done.stderr)
        self.assertIn("--max-size", done.stderr)
        self.assertIn("asks for messages of 262144 bytes", self.server.stderr.readline())
        done = self.measure("--sizes", "128K")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_the_connections_of_a_client_have_together(self) -> None:
        self.start("--max-size", "128K")
        done = run("--client", "127.0.0.1", "--port", self.port, "--tests", "rate", "--sizes", "64K",
                   "--threads", "3", ADAPTER)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("over each of 3 connections: it allows 128 KiB", done.stderr)
        self.assertIn("over each of 3 connections", self.server.stderr.readline())

    def client(self, *arguments: str) -> subprocess.Popen[str]:
        started = subprocess.Popen(
            [OPTIONS.program, "--client", "127.0.0.1", "--port", str(self.port), "--tests",
             "latency", *arguments, ADAPTER], env=environment(), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        self.addCleanup(started.wait)
        self.addCleanup(started.kill)
        return started

    def test_several_clients_at_once(self) -> None:
        self.start("--clients", "2")
        first = self.client("--duration", "3600")
        self.assertEqual(self.server.stderr.readline(), "client 1 of 2\n")
        self.assertEqual(self.client("--duration", "0.02").wait(150), 0)
        self.assertEqual(self.server.stderr.readline(), "client 2 of 2\n")
        self.assertIsNone(self.server.poll())
        first.kill()
        self.assertEqual(self.server.wait(150), 1)
        self.assertIn("1 of 2 clients were served to their end", self.server.stderr.read())

    def test_where_it_listens(self) -> None:
        self.start("--listen", "127.0.0.1")
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", self.port))
        self.check_that_it_serves()

    def test_nobody_comes(self) -> None:
        self.start("--wait", "1")
        stranger = self.stranger()
        self.assertEqual(self.server.wait(30), 1)
        self.assertIn("no client connected within 1 seconds", self.server.stderr.read())
        self.assertEqual(self.heard(stranger), b"")


class Output(unittest.TestCase):
    def setUp(self) -> None:
        if f"\n{ADAPTER} " not in pathlib.Path(OPTIONS.dat_conf).read_text():
            self.skipTest(f"the build has no {ADAPTER}")

    def measure(self, redirection: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", "-c", f'exec "$@" {redirection}', "sh", OPTIONS.program,
                               ADAPTER, "--quick"], stderr=subprocess.PIPE, text=True,
                              env=environment(), timeout=150, check=False)

    def test_that_cannot_be_written(self) -> None:
        done = self.measure(">/dev/full")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("not all output could be written", done.stderr)

    def test_to_nowhere(self) -> None:
        """Output does not go into a file that was opened under the number of a closed stream."""
        for redirection in (">&-", ">&- <&-"):
            done = self.measure(redirection)
            self.assertEqual(done.returncode, 0, done.stderr)


class Shortage(unittest.TestCase):
    """An adapter that does not open names the limit, or the variable, in the way."""

    def said_by(self, adapter: str, limit: int | None = None, **variables: str) -> str:
        if f"\n{adapter} " not in pathlib.Path(OPTIONS.dat_conf).read_text():
            self.skipTest(f"the build has no {adapter}")

        def shorten() -> None:
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

        done = subprocess.run([OPTIONS.program, "--quick", adapter], capture_output=True, text=True,
                              env=environment() | variables, timeout=150, check=False,
                              preexec_fn=shorten)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stderr

    def test_descriptors(self) -> None:
        for adapter in ("soft-lo", ADAPTER):
            with self.subTest(adapter):
                said = {limit: self.said_by(adapter, limit) for limit in range(7, 10)}
                self.assertTrue(any(f"{limit} descriptors may be open (RLIMIT_NOFILE, ulimit -n)" in
                                    text for limit, text in said.items()), said)

    def test_variables_of_libfabric(self) -> None:
        said = self.said_by(ADAPTER, FI_PROVIDER="no_such")
        self.assertIn("FI_PROVIDER=no_such leaves out others", said)


class Ends(unittest.TestCase):
    def test_wrong_usage(self) -> None:
        for arguments in ([], ["--nonsense", ADAPTER], ["--size", "0", ADAPTER],
                          ["--size", "many", ADAPTER], ["--tests", "speed", ADAPTER],
                          ["--server", "--client", "host", ADAPTER], ["--port", "70000", ADAPTER],
                          ["--duration", "nan", ADAPTER],
                          ["--quick", "--sweep", ADAPTER], ["one", "two"],
                          ["--quick", "--tests", "rate", ADAPTER],
                          ["--server", "--tests", "open", ADAPTER],
                          ["--clients", "2", ADAPTER], ["--threads", "65", ADAPTER],
                          ["--threads", "2", "--quick", ADAPTER],
                          ["--server", "--both-ways", ADAPTER],
                          ["--client", "host", "--tests", "open", ADAPTER],
                          ["--adapter", ADAPTER, ADAPTER]):
            done = run(*arguments)
            self.assertEqual(done.returncode, 2, (arguments, done.stderr))
            self.assertTrue(done.stderr.startswith("dat-perf: "), done.stderr)

    def test_a_file_that_cannot_be_written(self) -> None:
        """It is found before anything is measured."""
        for option in ("--json", "--svg"):
            for path in ("/nonexistent/x", "/"):
                done = run(option, path, "unknown")
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(f"cannot write {path}: ", done.stderr)

    def test_an_unknown_adapter(self) -> None:
        for arguments in (["unknown"], ["--adapter", "unknown"]):
            done = run(*arguments)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("adapter 'unknown'", done.stderr)
            self.assertIn("DAT_PROVIDER_NOT_FOUND", done.stderr)

    def test_help_and_version(self) -> None:
        self.assertIn("--svg FILE", run("--help").stdout)
        self.assertRegex(run("--version").stdout, r"^dat-perf \d")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--dat-conf", required=True)
    rest = parser.parse_known_args(namespace=OPTIONS)[1]
    program = unittest.main(argv=[sys.argv[0], *rest], exit=False)
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
