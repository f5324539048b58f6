# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Captures for tests: makes one of the traffic of told_traffic, and reads and writes the format."""

import dataclasses
import ipaddress
import json
import os
import pathlib
import struct
import subprocess

SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6
RAW_IP = 101
RECEIVED, SENT = 1, 2  # the low bits of a packet's flags


@dataclasses.dataclass
class Datagram:
    flags: int
    time_ns: int
    ip: bytes
    original: int

    @property
    def version(self) -> int:
        return self.ip[0] >> 4

    @property
    def udp(self) -> bytes:
        return self.ip[20 if self.version == 4 else 40:]

    @property
    def payload(self) -> bytes:
        return self.udp[8:]

    @property
    def ends(self) -> tuple[str, int, str, int]:
        first, size = (12, 4) if self.version == 4 else (8, 16)
        source, target = (str(ipaddress.ip_address(self.ip[at:at + size]))
                          for at in (first, first + size))
        return source, *struct.unpack_from(">H", self.udp), target, *struct.unpack_from(
            ">H", self.udp, 2)


def blocks(data: bytes):
    """Type and body of each; a block that does not fit is an error."""
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from("=II", data, at)
        body = data[at + 8:at + size - 4]
        if size % 4 or len(body) != size - 12 or struct.unpack_from("=I", data, at + size - 4) != (
                size,):
            raise ValueError(f"a block at {at} of {len(data)} is broken")
        yield kind, body
        at += size


def read(path: pathlib.Path) -> tuple[int, list[Datagram]]:
    """The number of sections, and all datagrams."""
    sections, found = 0, []
    for kind, body in blocks(path.read_bytes()):
        if kind == SECTION:
            sections += 1
        elif kind == PACKET:
            _, high, low, size, original = struct.unpack_from("=IIIII", body)
            options = body[20 + (size + 3) // 4 * 4:]
            flags = struct.unpack_from("=HHI", options)
            if flags[:2] != (2, 4):
                raise ValueError(f"a packet's first option is {flags}")
            found.append(Datagram(flags[2], high << 32 | low, body[20:20 + size], original))
    return sections, found


def internet_sum(data: bytes) -> int:
    """RFC 1071; 0xffff where a checksum in the data is right."""
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total > 0xffff:
        total = (total & 0xffff) + (total >> 16)
    return total


def dat_conf(original: pathlib.Path, adapter: str, folder: pathlib.Path, parameters: str = "") -> pathlib.Path:
    """A registry file with this adapter alone, with more parameters."""
    lines = [line.replace('direct=0"', f'direct=0 {parameters}"')
             for line in original.read_text().splitlines() if line.startswith(adapter + " ")]
    made = folder / "dat.conf"
    made.write_text("\n".join(lines) + "\n")
    return made


def run_traffic(program: pathlib.Path, conf: pathlib.Path, adapter: str,
                capture: pathlib.Path | None) -> tuple[list[dict], str]:
    """What the program did, and all that it printed."""
    environment = {name: value for name, value in os.environ.items() if name != "DAPL_TRACE_PCAP"}
    environment["DAT_OVERRIDE"] = str(conf)
    if capture is not None:
        environment["DAPL_TRACE_PCAP"] = str(capture)
    done = subprocess.run([program, adapter], env=environment, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{program.name} ended with {done.returncode}:\n{done.stdout}")
    return [json.loads(line) for line in done.stdout.splitlines()
            if line.startswith("{")], done.stdout
