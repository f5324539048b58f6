#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Wireshark's dissector of the software HCA shows what the engine's wire format says, and what a program did."""

import argparse
import collections
import json
import os
import pathlib
import secrets
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import captures

SKIPPED = 77
ALTERED = 1500
# Of no protocol that Wireshark knows by its port.
PORT, SOURCES = 48211, 48300
TRACED = "soft-udp-traced"
SENT = "frame.packet_flags_direction == 2"
NOT_DECODED = {"segment.payload_size": "segment.payload", "padding_size": "padding",
               "message_size": "message"}
options = argparse.Namespace()


def value_of(text: str) -> int:
    return {"True": 1, "False": 0}.get(text) if text in ("True", "False") else int(text, 0)


def is_ours(shown: dict[str, str]) -> bool:
    return shown["frame.protocols"].endswith(":softhca")


def loads_scripts() -> bool:
    """Whether tshark loads any: from 4.6 on it loads none for root, and does not say so."""
    said = subprocess.run(["tshark", "-X", f"lua_script:{options.script}", "-r", "/dev/null", "-T",
                           "fields", "-e", "softhca.kind"],
                          text=True, capture_output=True, check=False).stderr
    return "aren't valid" not in said


def tshark(capture: pathlib.Path, names: list[str], *more: str) -> list[dict[str, str]]:
    """These fields of each datagram; a field that comes twice has commas."""
    command = ["tshark", "-X", f"lua_script:{options.script}", "-r", str(capture), "-T", "fields",
               "-E", "separator=/t", *more]
    for name in names:
        command += ["-e", name]
    home = capture.parent / "home"
    home.mkdir(exist_ok=True)
    done = subprocess.run(command, text=True, capture_output=True, check=False,
                          env={**os.environ, "HOME": str(home), "LC_ALL": "C.UTF-8"})
    said = done.stdout + done.stderr
    if done.returncode != 0 or "Lua" in said:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{said[-3000:]}")
    return [dict(zip(names, line.split("\t"))) for line in done.stdout.split("\n")[:-1]]


def write_capture(path: pathlib.Path, datagrams: list[bytes]) -> None:
    """A pcap of datagrams to PORT."""
    with path.open("wb") as file:
        file.write(struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, captures.RAW_IP))
        for number, payload in enumerate(datagrams):
            udp = struct.pack(">HHHH", SOURCES + number, PORT, 8 + len(payload), 0)
            head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 28 + len(payload), 0, 0, 64, 17, 0,
                               bytes((192, 0, 2, 1)), bytes((192, 0, 2, 2)))
            packet = head + udp + payload
            file.write(struct.pack("=IIII", number, 0, len(packet), len(packet)) + packet)


class Dissector(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="dissector-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "capture"

    def samples(self, altered: int) -> list[dict]:
        lines = subprocess.run([options.samples, str(altered)], text=True, capture_output=True,
                               check=True).stdout.splitlines()
        samples = [json.loads(line) for line in lines]
        write_capture(self.file, [bytes.fromhex(each["bytes"]) for each in samples])
        return samples

    def check_fields(self, sample: dict, shown: dict[str, str]) -> None:
        for name, wanted in sample["fields"].items():
            if name in NOT_DECODED:
                text = shown["softhca." + NOT_DECODED[name]]
                found = len(text) // 2
            else:
                text = shown["softhca." + name]
                found = value_of(text) if text else None
            self.assertEqual(found, wanted, f"{name} of {sample}: {shown}")

    def test_fields_and_verdicts(self) -> None:
        """Each field has the value that was written; malformed is what the engine's parser refuses."""
        samples = self.samples(ALTERED)
        names = sorted({"softhca." + NOT_DECODED.get(name, name)
                        for each in samples for name in each["fields"]})
        shown = tshark(self.file, ["frame.protocols", "softhca.malformed", *names],
                       "-o", f"softhca.ports:{PORT}")
        self.assertEqual(len(shown), len(samples))
        verdicts = collections.Counter()
        for sample, each in zip(samples, shown):
            self.assertTrue(is_ours(each), sample)
            self.assertEqual(each["softhca.malformed"] == "", sample["good"], f"{sample}: {each}")
            self.check_fields(sample, each)
            verdicts[sample["good"]] += 1
        self.assertGreater(min(verdicts.values()), ALTERED // 10, verdicts)
        self.assertTrue(all(each["good"] for each in samples[:-ALTERED]))

    def test_on_any_port(self) -> None:
        """A good datagram is recognised, but for sealed ones without a handshake; no other is."""
        samples = self.samples(ALTERED)
        for sample, each in zip(samples, tshark(self.file, ["frame.protocols"])):
            alone = sample["fields"].get("version") == 3 and sample["fields"]["kind"] == 0
            self.assertEqual(is_ours(each), sample["good"] and not alone, sample)

    def traffic(self, parameters: str = "") -> collections.defaultdict:
        if options.traffic is None:
            self.skipTest("there is no traced library")
        conf = captures.dat_conf(options.dat_conf, TRACED, self.folder, parameters)
        steps = collections.defaultdict(list)
        for each in captures.run_traffic(options.traffic, conf, TRACED, self.file)[0]:
            steps[each["step"]].append(each)
        return steps

    def test_what_a_program_did(self) -> None:
        steps = self.traffic("checksum=1")
        names = ["kind", "segment.opcode", "segment.stag", "segment.offset", "segment.source_stag",
                 "segment.source_offset", "segment.read_size", "segment.immediate",
                 "segment.atomic", "segment.swap_or_add", "segment.compare", "segment.original",
                 "segment.payload", "hello.qualifier", "private_data", "closing.code", "rejection",
                 "malformed", "psn", "ack"]
        packets = [{name: each["softhca." + name] for name in names}
                   for each in tshark(self.file, ["softhca." + name for name in names], "-Y", SENT)]
        self.assertFalse([each for each in packets if each["malformed"] or not each["kind"]])

        def shown(of: list[str], **where: int) -> list[tuple]:
            """These fields of the datagrams that `where` selects, each once."""
            chosen = {name.replace("__", "."): value for name, value in where.items()}
            found = [tuple(each[name] for name in of) for each in packets
                     if all(each[name] and value_of(each[name]) == value
                            for name, value in chosen.items())]
            return list(dict.fromkeys(found))

        def numbers(of: list[str], **where: int) -> list[tuple]:
            return [tuple(value_of(text) for text in row) for row in shown(of, **where)]

        def data(text: str) -> str:
            return text.encode().hex()

        self.assertEqual(
            shown(["hello.qualifier", "private_data"], kind=4),
            [(str(each["qualifier"]), data(each["request"]))
             for each in steps["connect"] + steps["reject"]])
        accept, = shown(["private_data"], kind=5)
        self.assertEqual(accept[0], data(steps["connect"][0]["accept"]))
        self.assertEqual(shown(["rejection", "private_data"], kind=6),
                         [("1", data(steps["reject"][0]["answer"]))])
        self.assertEqual(numbers(["closing.code"], kind=7), [(steps["disconnect"][0]["reason"],)])

        self.assertEqual([len(row[0]) // 2 for row in shown(["segment.payload"], segment__opcode=3)],
                         [each["bytes"] for each in steps["send"]])
        self.assertEqual(
            [(value_of(key), value_of(at), len(payload) // 2) for key, at, payload in
             shown(["segment.stag", "segment.offset", "segment.payload"], segment__opcode=0)],
            [(each["key"], each["address"], each["bytes"]) for each in steps["write"]])
        remote = ["segment.source_stag", "segment.source_offset"]
        self.assertEqual(
            numbers([*remote, "segment.read_size"], segment__opcode=1),
            [(each["key"], each["address"], each["bytes"]) for each in steps["read"]])
        answer, = shown(["segment.payload"], segment__opcode=2)
        self.assertEqual(len(answer[0]) // 2, steps["read"][0]["bytes"])
        immediate, = numbers(["segment.immediate"], segment__opcode=8)
        self.assertEqual(immediate[0], steps["immediate"][0]["immediate"])

        add, swap = steps["add"][0], steps["swap"][0]
        self.assertEqual(
            numbers([*remote, "segment.swap_or_add"], segment__opcode=10, segment__atomic=0),
            [(add["key"], add["address"], add["add"])])
        self.assertEqual(
            numbers([*remote, "segment.swap_or_add", "segment.compare"], segment__opcode=10,
                    segment__atomic=2),
            [(swap["key"], swap["address"], swap["swap"], swap["compare"])])
        self.assertEqual(numbers(["segment.original"], segment__opcode=11),
                         [(add["original"],), (swap["original"],)])

    def test_sealed(self) -> None:
        """Whose connection begins in the capture: all are shown as sealed, and nothing of the contents."""
        if not options.keys:
            self.skipTest("built without keys")
        key = self.folder / "key"
        key.touch(0o600)
        key.write_text(secrets.token_hex(32))
        self.traffic(f"key_file={key}")
        names = ["frame.protocols", "softhca.sealed", "softhca.malformed", "softhca.kind",
                 "softhca.segment.opcode", "softhca.private_data"]
        shown = tshark(self.file, names)
        self.assertGreater(len(shown), 20)
        for each in shown:
            self.assertTrue(is_ours(each), each)
            self.assertTrue(each["softhca.sealed"])
            self.assertFalse(each["softhca.malformed"] or each["softhca.segment.opcode"]
                             or each["softhca.private_data"], each)
        self.assertLessEqual({"0", "4", "5", "6"}, {each["softhca.kind"] for each in shown})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--script", type=pathlib.Path, required=True, metavar="LUA")
    parser.add_argument("--samples", type=pathlib.Path, required=True, metavar="PROGRAM")
    parser.add_argument("--traffic", type=pathlib.Path, metavar="PROGRAM")
    parser.add_argument("--dat-conf", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--keys", action="store_true", help="sealed packets are built")
    parser.parse_args(namespace=options)
    if shutil.which("tshark") is None:
        print("tshark is not installed")
        return SKIPPED
    if os.geteuid() == 0 and not loads_scripts():
        print("tshark loads no Lua scripts for root")
        return SKIPPED
    return 0 if unittest.main(argv=sys.argv[:1], verbosity=1, exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
