#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A client and a server, each a Windows process, over the software HCA.

They connect, write by RDMA, send and receive; the server waits in a CNO and the client in EVDs; the
client disconnects and both close gracefully. Then again as a user has it: the libraries lie beside the
program, and dat.conf where the registry looks for it without being told.
"""

import argparse
import os
import pathlib
import shutil
import sys
import tempfile

import windows_program

SAID = ("a request by: the client of hello.c",
        "received: I have written into your memory",
        "written: hello, from the client to the server")


def talk(hello: pathlib.Path, adapter: str, port: str, env: dict[str, str]) -> list[str]:
    """Tells the failure."""
    command = windows_program.command
    with windows_program.Background(command(hello, "server", adapter, port), env) as server:
        if not server.read_until("waiting on port"):
            return [f"the server does not wait: {server.said}"]
        client = windows_program.run(command(hello, "client", adapter, "127.0.0.1", port), env)
        if client.returncode != 0 or client.stdout.split() != ["received:", "hello", "to", "you"]:
            return [f"the client ended with {client.returncode}: {client.stdout}{client.stderr}"]
        status = server.wait()
        if status != 0 or [line for line in SAID if line not in server.said]:
            return [f"the server ended with {status}: {server.said}"]
    return []


def refused_key(hello: pathlib.Path, library: pathlib.Path, env: dict[str, str]) -> list[str]:
    """An adapter with a key does not open without protection; a line says why."""
    with tempfile.TemporaryDirectory() as folder:
        conf = pathlib.Path(folder, "dat.conf")
        conf.write_text(f'sealed u2.0 nonthreadsafe default {library} dapl.2.0 "lo key_file=k" ""\n')
        said = windows_program.run(
            windows_program.command(hello, "client", "sealed", "127.0.0.1"),
            {**env, "DAT_OVERRIDE": str(conf), "DAPL_DBG_DEST": "4"})
    reason = "key_file=k: this library was built without sealed packets"
    if said.returncode != 1 or reason not in said.stderr:
        return [f"a key: {said.returncode}: {said.stderr}"]
    return []


def as_installed(options: argparse.Namespace) -> list[str]:
    """Tells the failure with a folder of the program and its libraries, and the dat.conf that is
    installed. Nothing where the folder of such files is not known, which is Wine's to say."""
    drive = pathlib.Path(os.environ.get("WINEPREFIX", "/nowhere"), "drive_c")
    if not drive.is_dir():
        return []
    conf = drive / "ProgramData/dapl/dat.conf"
    conf.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for file in (options.hello, options.libdat2, options.library):
            shutil.copy(file, folder)
        shutil.copy(options.installed_dat_conf, conf)
        env = {name: value for name, value in os.environ.items()
               if name not in ("DAT_OVERRIDE", "DAT_CONF", "WINEPATH")}
        found = talk(pathlib.Path(folder, options.hello.name), "soft-lo", "45250", env)
    conf.unlink()
    return [f"as installed: {what}" for what in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--hello", "--libdat2", "--library", "--dat-conf", "--installed-dat-conf"):
        parser.add_argument(name, type=pathlib.Path, required=True)
    options = parser.parse_args()

    env = windows_program.environment(options.dat_conf, options.libdat2.parent)
    found = talk(options.hello, "soft-lo", "45248", env)
    found += talk(options.hello, "soft-udp", "45249", env)
    found += refused_key(options.hello, options.library, env)
    found += as_installed(options)
    for what in found:
        print(what)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
