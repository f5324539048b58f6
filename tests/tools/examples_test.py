#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The examples of examples/, run as their texts say."""

import argparse
import os
import pathlib
import random
import subprocess
import sys
import unittest

OPTIONS = argparse.Namespace()
PATIENCE = 60  # seconds; the programs give up before


class Examples(unittest.TestCase):
    def run_one(self, program: str, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([program, *arguments], capture_output=True, text=True, check=False,
                              timeout=PATIENCE, env=self.environment())

    @staticmethod
    def environment() -> dict[str, str]:
        return {**os.environ, "DAT_OVERRIDE": OPTIONS.dat_conf}

    def server(self, program: str) -> tuple[subprocess.Popen, str]:
        """A server that listens, and its port."""
        for _ in range(20):
            port = str(random.randrange(20000, 30000))
            process = subprocess.Popen([program, "server", OPTIONS.adapter, port],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       env=self.environment())
            self.addCleanup(process.stdout.close)
            self.addCleanup(process.stderr.close)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            if process.stdout.readline() == f"waiting on port {port}\n":
                return process, port
            said = process.stderr.read()
            self.assertIn("DAT_CONN_QUAL_IN_USE", said)
        self.fail("twenty ports are in use")

    def test_hello(self) -> None:
        """Either generation greets either."""
        for serving in (OPTIONS.hello, OPTIONS.hello12):
            for asking in (OPTIONS.hello, OPTIONS.hello12):
                server, port = self.server(serving)
                client = self.run_one(asking, "client", OPTIONS.adapter, "127.0.0.1", port)
                said, errors = server.communicate(timeout=PATIENCE)
                self.assertEqual((client.returncode, server.returncode), (0, 0),
                                 client.stderr + errors)
                source = f"{pathlib.Path(asking).name.removeprefix('example-')}.c"
                self.assertEqual(said.splitlines(), [
                    f"a request by: the client of {source}",
                    "received: I have written into your memory",
                    "written: hello, from the client to the server"])
                self.assertEqual(client.stdout, "received: hello to you\n")

    def test_a_server_that_is_killed(self) -> None:
        """Its client ends, and names the event."""
        server, port = self.server(OPTIONS.hello)
        server.kill()
        server.wait()
        client = self.run_one(OPTIONS.hello, "client", OPTIONS.adapter, "127.0.0.1", port)
        self.assertEqual(client.returncode, 1)
        self.assertIn("hello: DAT_CONNECTION_EVENT_NON_PEER_REJECTED came instead of "
                      "DAT_CONNECTION_EVENT_ESTABLISHED\n", client.stderr)

    def test_a_name_that_is_wrong(self) -> None:
        for program in (OPTIONS.hello, OPTIONS.hello12):
            done = self.run_one(program, "server", "no-such")
            self.assertEqual(done.returncode, 1)
            self.assertIn(": dat_ia_open: DAT_PROVIDER_NOT_FOUND", done.stderr)

    def test_help(self) -> None:
        for program in (OPTIONS.hello, OPTIONS.hello12):
            helped = self.run_one(program, "--help")
            self.assertEqual((helped.returncode, helped.stderr), (0, ""))
            self.assertTrue(helped.stdout.startswith("Usage: "))
            for wrong in ([], ["client", "a"], ["server", "a", "0"], ["server", "a", "1x"],
                          ["server", "a", "65536"], ["serve", "a"]):
                done = self.run_one(program, *wrong)
                self.assertEqual((done.returncode, done.stdout, done.stderr),
                                 (2, "", helped.stdout), wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for one in ("adapter", "dat-conf", "hello", "hello12"):
        parser.add_argument("--" + one, required=True)
    rest = parser.parse_known_args(namespace=OPTIONS)[1]
    program = unittest.main(argv=[sys.argv[0], *rest], exit=False)
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
