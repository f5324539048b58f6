#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A Linux and a Windows process talk to each other over the software HCA.

They exchange messages in both directions and write and read each other's memory, on a good network
and on one that loses datagrams; each system is the server once.
"""

import argparse
import dataclasses
import os
import pathlib
import sys
import tempfile

import windows_program

PORT = 45300
LIMIT = 3600  # seconds; a busy machine
MESSAGES = 100_000  # of each side
ROUNDS = 2048  # each side writes and reads half a GiB


@dataclasses.dataclass(frozen=True)
class System:
    """Where a build for a system is, and what the names of its files are."""

    build: pathlib.Path
    library: str
    program: str
    is_windows: bool

    def environment(self, folder: pathlib.Path, params: str) -> dict[str, str]:
        conf = folder / f"{self.program}.conf"
        library = self.build / "transports" / self.library
        conf.write_text(f'one u2.0 nonthreadsafe default {library} dapl.2.0 "{params}" ""\n')
        libdat2 = self.build / "dat"
        if self.is_windows:
            return windows_program.environment(conf, libdat2)
        return {**os.environ, "DAT_OVERRIDE": str(conf), "LD_LIBRARY_PATH": str(libdat2)}

    def command(self, *arguments: str) -> list[str]:
        program = self.build / "tests/windows" / self.program
        if self.is_windows:
            return windows_program.command(program, *arguments)
        return [str(program), *arguments]


def talk(server: System, client: System, params: str) -> str:
    """Tells what went wrong; empty when all is well."""
    amounts = (str(PORT), str(MESSAGES), str(ROUNDS))
    wanted = f"{MESSAGES + 1} messages and {2 * ROUNDS} RDMA operations"
    with (tempfile.TemporaryDirectory() as name,
          windows_program.Background(server.command("server", "one", *amounts),
                                     server.environment(pathlib.Path(name), params)) as serving):
        if not serving.read_until("waiting on port"):
            return f"the server does not wait: {serving.said}"
        calling = windows_program.run(client.command("client", "one", *amounts, "127.0.0.1"),
                                      client.environment(pathlib.Path(name), params), LIMIT)
        if calling.returncode != 0 or wanted not in calling.stdout:
            return f"the client ended with {calling.returncode}: {calling.stdout}{calling.stderr}"
        status = serving.wait()
        if status != 0 or not any(wanted in line for line in serving.said):
            return f"the server ended with {status}: {serving.said}"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--linux", type=pathlib.Path, required=True, help="its build")
    parser.add_argument("--windows", type=pathlib.Path, required=True, help="its build")
    options = parser.parse_args()
    linux = System(options.linux, "libdapl-soft.so.2", "exchange", False)
    windows = System(options.windows, "libdapl-soft-2.dll", "exchange.exe", True)

    failed = 0
    for what, params in (("a good network", "127.0.0.1"),
                         ("2 % of the datagrams lost", "127.0.0.1 loss=20")):
        for server, client, ways in ((linux, windows, "Windows calls Linux"),
                                     (windows, linux, "Linux calls Windows")):
            found = talk(server, client, params)
            failed += found != ""
            print(f"{ways}, {what}: {found or 'passed'}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
