# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Two network namespaces joined by a cable (a veth pair), or by a bridge: as good as two hosts."""

import os
import pathlib
import re
import subprocess
import tempfile
import time

INTERFACE = "veth0"
SERVER_ADDRESS, CLIENT_ADDRESS = "10.97.0.1", "10.97.0.2"


class CannotRun(Exception):
    """This system does not let us make them."""


class TwoHosts:
    """A context with two hosts; `server` and `client` are processes in them.

    With `narrow`, the path between them carries packets up to that size, less than their interfaces
    do, and drops larger ones without an ICMP error.
    """

    def __init__(self, narrow: int | None = None) -> None:
        self._narrow = narrow
        self._holders: list[subprocess.Popen] = []
        self._conf = tempfile.NamedTemporaryFile("w", prefix="dat", suffix=".conf")

    def __enter__(self) -> "TwoHosts":
        try:
            self._holders = [_hold_namespace(), _hold_namespace()]
            self.lay_cable()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for holder in self._holders:
            holder.kill()
            holder.communicate()
        self._conf.close()

    def lay_cable(self) -> None:
        """Joins the hosts, at first or after an interface was deleted."""
        if self._narrow is None:
            join(self.server, self.client, INTERFACE)
        else:
            self._join_by_bridge(self._narrow)
        for host, address in ((self.server, SERVER_ADDRESS), (self.client, CLIENT_ADDRESS)):
            run(host, "ip", "address", "add", f"{address}/24", "dev", INTERFACE)
            for interface in ("lo", INTERFACE):
                run(host, "ip", "link", "set", interface, "up")

    def _join_by_bridge(self, mtu: int) -> None:
        self._holders.append(_hold_namespace())
        bridge = self._holders[-1].pid
        run(bridge, "ip", "link", "add", "bridge0", "type", "bridge")
        for host, port in ((self.server, "port0"), (self.client, "port1")):
            # Segmentation offload would let packets larger than its MTU pass.
            join(host, bridge, port, "gso_max_segs", "1")
            run(bridge, "ip", "link", "set", port, "master", "bridge0", "up")
        run(bridge, "ip", "link", "set", "port1", "mtu", str(mtu))
        run(bridge, "ip", "link", "set", "bridge0", "up")

    @property
    def server(self) -> int:
        return self._holders[0].pid

    @property
    def client(self) -> int:
        return self._holders[1].pid

    def dat_conf(self, original: pathlib.Path, more: str = "") -> pathlib.Path:
        """A copy whose adapters are on the cable, not on the loopback interface.

        `more` is added to their parameters. The copy made before is overwritten.
        """
        adapters = re.sub(r'(?<=[" ])lo(?=[" ])', INTERFACE + more, original.read_text())
        self._conf.seek(0)
        self._conf.truncate()
        self._conf.write(adapters)
        self._conf.flush()
        return pathlib.Path(self._conf.name)


def join(host: int, other: int, name: str, *more: str) -> None:
    """Lays a cable, whose end on the other host has that name. `more`: parameters of both ends."""
    run(host, "ip", "link", "add", INTERFACE, *more, "type", "veth",
        "peer", "name", name, "netns", str(other), *more)


def enter(host: int) -> tuple[str, ...]:
    """What a command line begins with that is to run on the host."""
    return ("nsenter", "--target", str(host), "--net", "--")


def _hold_namespace() -> subprocess.Popen:
    ours = os.readlink("/proc/self/ns/net")
    try:
        holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"],
                                  stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        raise CannotRun(f"unshare: {error.strerror}") from error
    while holder.poll() is None:
        try:
            if os.readlink(f"/proc/{holder.pid}/ns/net") != ours:
                return holder
        except OSError:  # it ends
            pass
        time.sleep(0.01)
    raise CannotRun(f"network namespaces: {holder.stderr.read().strip()}")


def run(host: int, *command: str) -> str:
    """What a command prints on the host."""
    try:
        done = subprocess.run([*enter(host), *command], capture_output=True, text=True, check=False)
    except OSError as error:
        raise CannotRun(f"nsenter: {error.strerror}") from error
    if done.returncode != 0:
        raise CannotRun(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
