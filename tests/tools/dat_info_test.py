#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""dat-info on adapters that open, and on adapters that fail to open for each known reason."""

import argparse
import json
import os
import pathlib
import pty
import re
import resource
import subprocess
import sys
import tempfile
import time
import unittest

OPTIONS = argparse.Namespace()
ADAPTER = "ofi-lo"


class Run:
    """One run of the program."""

    def __init__(self, conf: pathlib.Path | None, *arguments: str,
                 within: tuple[str, ...] = (), **changes: str | None):
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("DAT_OVERRIDE", "DAT_CONF", "DAT_DBG_TYPE", "DAPL_DBG_TYPE",
                                      "NO_COLOR")}
        if conf is not None:
            environment["DAT_OVERRIDE"] = str(conf)
        for sanitizer in ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"):  # want the signal
            environment[sanitizer] = ":".join(filter(None, [environment.get(sanitizer),
                                                            "handle_segv=0"]))
        environment.update(changes)
        began = time.monotonic()
        process = subprocess.run([*within, OPTIONS.program, *arguments], capture_output=True, text=True,
                                 env=environment, timeout=100, check=False)
        self.seconds = time.monotonic() - began
        self.status, self.output = process.returncode, process.stdout + process.stderr
        self.words = re.sub(r"\s+", " ", self.output)  # the output without line wrapping
        self.data = json.loads(process.stdout) if "--json" in arguments else {}
        self.adapters = {each["name"]: each for each in self.data.get("adapters", [])}


class WithFolder(unittest.TestCase):
    def setUp(self) -> None:
        keep = tempfile.TemporaryDirectory(prefix="dat-info-")
        self.addCleanup(keep.cleanup)
        self.folder = pathlib.Path(keep.name)
        self.conf = self.folder / "dat.conf"

    def write(self, *lines: str) -> pathlib.Path:
        self.conf.write_text("".join(each + "\n" for each in lines))
        return self.conf

    def provider(self, name: str, fault: str = "sound", safety: str = "nonthreadsafe") -> str:
        return (f'{name} u2.0 {safety} default {OPTIONS.broken_provider} broken.1.0 "{fault}" ""')


class Opens(WithFolder):
    def need_adapter(self) -> None:
        if f"\n{ADAPTER} " not in pathlib.Path(OPTIONS.dat_conf).read_text():
            self.skipTest(f"the build has no {ADAPTER}")

    def test_the_adapter_of_the_build(self) -> None:
        self.need_adapter()
        run = Run(OPTIONS.dat_conf, "--adapter", ADAPTER)
        self.assertEqual(run.status, 0, run.output)
        self.assertIn("named by DAT_OVERRIDE", run.output)
        for line in (rf"{ADAPTER} +both +127.0.0.1 +opens", r"max_eps +[1-9]\d*\b",
                     r"max_message_size +\d+ bytes", r"provider_name +" + ADAPTER,
                     r"DAT_IB_TRANSPORT_MTU +\d+", r"max_recv_dtos +[1-9]", r"2 of 2 entries open"):
            self.assertRegex(run.output, line)
        # The second line of the adapter shows only the differences.
        self.assertRegex(run.output, r"threadsafe differs\n +is_thread_safe +yes")
        self.assertEqual(run.output.count("max_eps"), 1)
        self.assertNotIn("\x1b", run.output)

    def test_its_attributes_as_data(self) -> None:
        self.need_adapter()
        run = Run(OPTIONS.dat_conf, "--adapter", ADAPTER, "--json")
        one, two = run.data["adapters"]
        self.assertEqual([one["thread_safe"], two["thread_safe"]], [False, True])
        self.assertTrue(one["opens"])
        self.assertEqual(one["attributes"]["adapter"]["ia_address"], "127.0.0.1")
        self.assertGreater(one["attributes"]["adapter"]["max_eps"], 0)
        self.assertIs(one["attributes"]["provider"]["is_thread_safe"], False)
        self.assertIn("max_request_dtos", one["attributes"]["endpoint"])
        self.assertEqual(one["attributes"]["provider named"]["LIBFABRIC_ENDPOINT"], "FI_EP_MSG")
        self.assertEqual(run.data["registry"]["path"], str(OPTIONS.dat_conf))

    def test_a_report_has_machine_adapters_and_scorecards(self) -> None:
        self.write(self.provider("fine"))
        report, card = self.folder / "report.json", self.folder / "card.json"
        card.write_text('{"adapter": "fine", "results": [{"rule": "IA-01"}]}')
        run = Run(self.conf, "--report", str(report), "--scorecard", str(card))
        self.assertEqual(run.status, 0, run.output)
        self.assertIn("look through it before you send it", run.words)
        told = json.loads(report.read_text())
        self.assertIn("dat-info", told["made"]["program"])
        self.assertEqual(told["adapters"][0]["name"], "fine")
        self.assertEqual(told["registry"]["path"], str(self.conf))
        self.assertEqual(told["scorecards"][0]["results"], [{"rule": "IA-01"}])
        machine = told["machine"]
        soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        for name, value in (("locked_memory", soft), ("locked_memory_at_most", hard)):
            self.assertEqual(machine["limits"][name],
                             "unlimited" if value == resource.RLIM_INFINITY else value)
        self.assertEqual([each["name"] for each in machine["rdma_devices"]],
                         sorted(os.listdir("/sys/class/infiniband"))
                         if os.path.isdir("/sys/class/infiniband") else [])
        for file in machine["libraries"].values():
            self.assertTrue(file is None or pathlib.Path(file).is_file(), file)
        alone = Run(self.conf, "--report", "-")
        self.assertEqual(json.loads(alone.output)["scorecards"], [])

    def test_a_report_that_cannot_be_made(self) -> None:
        self.write(self.provider("fine"))
        report, card = self.folder / "report.json", self.folder / "card.json"
        run = Run(self.conf, "--report", str(self.folder / "none" / "report.json"))
        self.assertEqual(run.status, 1, run.output)
        self.assertIn("No such file or directory", run.output)
        run = Run(self.conf, "--scorecard", str(card))
        self.assertEqual(run.status, 2, run.output)
        self.assertIn("name its file by --report", run.words)
        for text in ("", "[]", "{}", '{"results": ['):
            card.write_text(text)
            run = Run(self.conf, "--report", str(report), "--scorecard", str(card))
            self.assertEqual(run.status, 1, text)
            self.assertIn("is no scorecard", run.words)
            self.assertFalse(report.exists(), text)

    def test_an_adapter_that_ordinary_programs_do_not_find(self) -> None:
        conf = self.write(self.provider("half", "sound", "threadsafe"), self.provider("whole", "sound", "threadsafe"),
                          self.provider("whole"))
        run = Run(conf, "--json")
        self.assertEqual(run.status, 0, run.output)
        told = {(each["name"], each["thread_safe"]): "no nonthreadsafe line" in (each["remark"] or "")
                for each in run.data["adapters"]}
        self.assertEqual(told, {("half", True): True, ("whole", True): False, ("whole", False): False})
        self.assertRegex(Run(conf).words, r"half threadsafe \S+ opens note only programs that ask for")

    def test_through_the_libdat2_of_the_system(self) -> None:
        self.need_adapter()
        library = pathlib.Path(OPTIONS.system_libdat2)
        if not library.exists():
            self.skipTest(f"there is no {library}")
        run = Run(OPTIONS.dat_conf, "--adapter", ADAPTER, LD_LIBRARY_PATH=str(library.parent))
        self.assertEqual(run.status, 0, run.output)
        self.assertIn(f"libdat2   {library.parent}", run.output)
        self.assertIn("2 of 2 entries open", run.output)
        run = Run(None, DAT_CONF="/nowhere/dat.conf", LD_LIBRARY_PATH=str(library.parent))
        self.assertIn("this libdat2 ignores it", run.words)

    def test_it_needs_no_symbol_that_only_one_libdat2_has(self) -> None:
        library = pathlib.Path(OPTIONS.system_libdat2)
        if not library.exists():
            self.skipTest(f"there is no {library}")
        wanted = {name for name in symbols("--undefined-only", OPTIONS.program)
                  if name.startswith("dat")}
        self.assertTrue(wanted)
        self.assertEqual(wanted - symbols("--defined-only", library), set())

    def test_verbose_shows_what_is_said(self) -> None:
        run = Run(self.write(self.provider("fine")), "--verbose")
        self.assertEqual(run.status, 0, run.output)
        self.assertRegex(run.output, r"said .*loading .*broken_provider")
        self.assertRegex(run.output, r"note .*endpoint limits are unknown: dat_evd_create")

    def test_colours_on_a_terminal_only(self) -> None:
        conf = self.write(self.provider("fine"))
        for changes, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
            seen = on_terminal(conf, changes)
            self.assertIn("opens", seen)
            self.assertEqual("\x1b[" in seen, coloured, seen)


class DoesNotOpen(WithFolder):
    def reason(self, run: Run, name: str, state: str, reason: str, advice: str) -> None:
        found = run.adapters[name]
        self.assertEqual(found["state"], state, found)
        self.assertRegex(found["reason"], reason)
        self.assertRegex(found["advice"], advice)

    def test_each_is_judged_whatever_the_others_do(self) -> None:
        conf = self.write(*(self.provider(name, name) for name in (
            "open_fails", "open_hangs", "open_crashes", "open_sleeps")), self.provider("sound"))
        run = Run(conf, "--json", "--timeout", "3")
        self.assertEqual(run.status, 0, run.output)
        self.reason(run, "open_fails", "does not open", "returns DAT_INSUFFICIENT_RESOURCES",
                    "seventh field of the line; `dat-info --suggest`")
        self.reason(run, "open_hangs", "hangs", "hangs in dat_ia_open for more than 3 seconds",
                    "--timeout")
        self.reason(run, "open_crashes", "crashes", "SIGSEGV in dat_ia_open", "bug in the provider")
        self.assertTrue(run.adapters["open_sleeps"]["opens"])
        self.assertTrue(run.adapters["sound"]["opens"])
        self.assertLess(run.seconds, 30)

    def test_a_provider_that_ends_the_program(self) -> None:
        run = Run(self.write(self.provider("leaves", "exit")), "--json")
        self.assertEqual(run.status, 1, run.output)
        self.reason(run, "leaves", "ends the program", "with status 0 in dat_pz_create",
                    "host process")

    def test_a_missing_library(self) -> None:
        conf = self.write("# comment", 'gone u2.0 nonthreadsafe default /nowhere/libgone.so.2 '
                          'x.1.0 "eth0 0" ""', 'none u2.0 nonthreadsafe default libnone.so.2 '
                          'x.1.0 "" ""')
        run = Run(conf, "--json")
        self.assertEqual(run.status, 1, run.output)
        self.reason(run, "gone", "does not open", "/nowhere/libgone.so.2: cannot open shared",
                    "install the library there, or correct the fifth field of the line")
        self.reason(run, "none", "does not open", "libnone.so.2: cannot open shared",
                    "package of that library.* LD_LIBRARY_PATH.*fifth field of the line")
        text = Run(conf)
        self.assertIn(f"{conf}:2: /nowhere/libgone.so.2, parameters \"eth0 0\"", text.words)
        self.assertIn("0 of 2 entries open", text.output)
        self.assertEqual(text.output.count("cannot open"), 2)  # the registry does not repeat it

    def test_what_a_library_lacks(self) -> None:
        source = self.folder / "lib.c"
        source.write_text("int needed(void); int f(void) { return needed(); }\n")
        (self.folder / "needed.c").write_text("int needed(void) { return 1; }\n")
        compiler = os.environ.get("CC", "cc").split()
        flags = ["-shared", "-fPIC", "-o"]
        needed, library = self.folder / "libneeded.so", self.folder / "liblacks.so"
        subprocess.run([*compiler, self.folder / "needed.c", *flags, needed,
                        "-Wl,-soname,libneeded.so"], check=True)
        subprocess.run([*compiler, source, *flags, library, needed, "-Wl,--no-as-needed"],
                       check=True)
        no_provider = self.folder / "libnoprovider.so"
        os.rename(needed, no_provider)
        conf = self.write(f'lacks u2.0 nonthreadsafe default {library} x.1.0 "" ""',
                          f'wrong u2.0 nonthreadsafe default {no_provider} x.1.0 "" ""')
        run = Run(conf, "--json")
        self.reason(run, "lacks", "does not open", "libneeded.so: cannot open shared",
                    f"install libneeded.so, which {library} depends on; `ldd ")
        self.reason(run, "wrong", "does not open", "has no symbol dat_provider_init",
                    f"not a DAT 2.0 provider: correct the fifth field of the line")

    def test_a_device_that_is_not_there(self) -> None:
        run = Run(self.write(self.provider("absent", "open_fails")), "--json")
        self.reason(run, "absent", "does not open", "its parameters do not name a device",
                    "bring the device up .*network interfaces: .*lo")

    def with_rdma_devices(self, *names: str) -> tuple[str, ...]:
        """What a command begins with that finds these in sysfs, and may lock 64 KiB."""
        for name in names:
            (self.folder / "class" / "infiniband" / name).mkdir(parents=True)
        within = ("unshare", "--map-root-user", "--mount", "sh", "-c",
                  'mount --bind "$0" /sys/class && ulimit -l 64 && exec "$@"',
                  str(self.folder / "class"))
        made = subprocess.run([*within, "true"], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            self.skipTest(f"no mount namespace: {made.stderr.strip()}")
        return within

    def test_an_rdma_device_that_nobody_gets_to(self) -> None:
        within = self.with_rdma_devices("open_fails", "sound")
        if os.path.exists("/dev/infiniband"):
            self.skipTest("this machine has device nodes")
        run = Run(self.write(self.provider("shut", "open_fails"), self.provider("whole")), "--json",
                  within=within)
        self.reason(run, "shut", "does not open", "there is no device node /dev/infiniband/uverbs",
                    "load the module ib_uverbs, or show the container these devices")
        self.assertRegex(run.adapters["whole"]["remark"],
                         r"64 KiB of memory may be locked \(ulimit -l\)")

    def test_equal_failures_share_one_text(self) -> None:
        names = [f"absent{i}" for i in range(12)]
        conf = self.write(self.provider("absent0", "open_fails"), self.provider("sound"),
                          *(self.provider(name, "open_fails") for name in names[1:]),
                          self.provider("absent5", "open_fails", "threadsafe"),
                          self.provider("dies", "open_crashes"))
        run = Run(conf)
        self.assertEqual(run.output.count("do not name a device"), 1)
        self.assertEqual(run.output.count("bring the device up"), 1)
        self.assertIn(f"{conf}:1,3,4,5,6,7,8,9 and others: ", run.words)
        self.assertEqual(run.output.count(" does not open"), 13)
        self.assertIn("bug in the provider", run.words)
        for name in (*names, "sound", "dies"):
            self.assertRegex(run.output, rf"\n{name} ")
        self.assertEqual(Run(conf, "--verbose").words.count("bring the device up"), 13)


class Suggestions(WithFolder):
    """Lines for the loopback interface, the one device that every machine has."""

    def line(self, name: str, parameters: str, safety: str = "nonthreadsafe") -> str:
        return f'{name} u2.0 {safety} default libx.so.2 x.1.0 "{parameters}" "a \\"b\\""'

    def suggested(self, *lines: str) -> dict[str, str]:
        """The suggested lines for the loopback interface, by adapter."""
        self.run = Run(self.write(*lines), "--suggest", "--json")
        self.assertEqual(self.run.status, 0, self.run.output)
        return {each["line"].split()[0]: each["line"] for each in self.run.data["suggestions"]
                if each["device"] == "lo"}

    def test_a_line_made_after_another(self) -> None:
        for safety in ("nonthreadsafe", "threadsafe"):
            found = self.suggested(self.line("fast-eth77", "tcp eth77 depth=3", safety))
            self.assertEqual(found, {"fast-lo": self.line("fast-lo", "tcp lo depth=3", safety)})
            self.assertEqual(self.run.data["suggestions"][0]["like"], "fast-eth77")

    def test_the_text_is_a_dat_conf(self) -> None:
        run = Run(self.write(self.line("fast-eth77", "eth77")), "--suggest")
        self.assertEqual(run.status, 0, run.output)
        self.assertRegex(run.output, "^# Made after the lines of ")
        listed = Run(self.write(*run.output.splitlines()), "--json")
        self.assertIn("fast-lo", listed.adapters)
        self.assertEqual(listed.data["registry"]["malformed"], [])

    def test_what_is_there_already(self) -> None:
        there = self.line("fast-lo", "lo")
        for lines in ([there], [self.line("fast-eth77", "eth77"), there],
                      [self.line("fast-eth77", "eth77"), self.line("other", "lo depth=2")],
                      [self.line("fast-eth77", "eth77"), self.line("fast-lo", "elsewhere")]):
            self.assertEqual(self.suggested(*lines), {}, lines)

    def test_a_line_for_an_rdma_device_is_none_for_an_interface(self) -> None:
        self.assertEqual(self.suggested(self.line("fast-mlx77_0", "mlx77_0 1")), {})

    def test_nothing_to_go_by(self) -> None:
        for line in (self.line("fast", "eth77"), self.line("fast-eth77", ""),
                     self.line("fast-eth77", "eth77").replace(" default ", " nondefault ")):
            run = Run(self.write(line), "--suggest")
            self.assertEqual(run.status, 3, run.output)
            self.assertIn("has no line to go by", run.output)
        run = Run(self.folder / "none.conf", "--suggest")
        self.assertEqual(run.status, 1, run.output)
        self.assertIn("none.conf cannot be read: No such file", run.output)


class SharedMemory(WithFolder):
    """The database of the user's processes, in which those of other tests may have regions."""

    def hold(self, *records: str) -> subprocess.Popen:
        holder = subprocess.Popen([OPTIONS.holder, *records], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(holder.stdout.close)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.stdin.close)
        self.assertEqual(holder.stdout.readline(), "held\n")
        return holder

    def names(self, conf: pathlib.Path) -> dict[str, dict]:
        self.run_ = Run(conf, "--shared", "--json")
        self.assertEqual(self.run_.status, 0, self.run_.output)
        return {each["text"]: each for each in self.run_.data["names"]}

    def test_regions_their_owners_and_their_ends(self) -> None:
        one, two = f"one-{os.getpid()}", f"\ttwo-{os.getpid()}"
        conf = self.write(self.provider("fine"))
        first = self.hold("fine", one, "8192", "fine", one, "8192", "elsewhere", two, "77")
        second = self.hold("fine", one, "8192")
        found = self.names(conf)[one]
        self.assertEqual((found["adapter"], found["length"], found["users"]), ("fine", 8192, 3))
        self.assertEqual(bytes.fromhex(found["cookie"]), one.encode().ljust(40, b"\0"))
        lives = {"lives": True, "registered": True}
        self.assertCountEqual(found["regions"], [{"process": first.pid, **lives}] * 2 +
                              [{"process": second.pid, **lives}])
        text = Run(conf, "--shared")
        self.assertEqual(text.status, 0, text.output)
        self.assertRegex(text.output, rf'\n"{one}"\n +adapter +fine\n +bytes +8192\n +users +3\n'
                         rf"( +process +({first.pid}|{second.pid}) lives\n){{3}}")
        self.assertRegex(text.output, two.encode().ljust(40, b"\0").hex() + r"\n +adapter +0x"
                         r"[0-9a-f]+, in no line of dat.conf\n +bytes +77\n +users +1\n")

        second.kill()
        second.wait()
        found = self.names(conf)[one]
        self.assertEqual(found["users"], 2)
        self.assertIn({"process": second.pid, "lives": False, "registered": True},
                      found["regions"])
        self.assertRegex(Run(conf, "--shared").output, f"process +{second.pid} has ended")
        first.stdin.close()
        first.wait()
        third = self.hold("fine", one, "9")  # in whose way the record of the dead process is
        found = self.names(conf)
        self.assertEqual((found[one]["length"], found[one]["regions"]),
                         (9, [{"process": third.pid, **lives}]))
        self.assertNotIn(first.pid, [region["process"] for each in found.values()
                                     for region in each["regions"]])

    def inside(self, before: str, *arguments: str) -> subprocess.CompletedProcess:
        """A run where /dev/shm is empty, but for what `before` does there."""
        hide = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
                'mount -t tmpfs none /dev/shm && eval "$0" && exec "$@"']
        if subprocess.run([*hide, "true", "true"], capture_output=True,
                          check=False).returncode != 0:
            self.skipTest("no mount namespace to hide /dev/shm in")
        return subprocess.run([*hide, before, OPTIONS.program, "--shared", *arguments],
                              capture_output=True, text=True, timeout=100, check=False)

    def test_nothing_is_shared(self) -> None:
        ended = f"{OPTIONS.holder} fine one 4 </dev/null >/dev/null"
        for before in ("true", ended, ended + "; truncate -s 0 /dev/shm/*"):
            done = self.inside(before)
            self.assertEqual((done.returncode, done.stderr), (0, ""), before)
            self.assertIn("no process of this user has registered shared memory\n", done.stdout)
            self.assertEqual(json.loads(self.inside(before, "--json").stdout)["names"], [])

    def test_looking_makes_no_database(self) -> None:
        done = self.inside(f"{OPTIONS.program} --shared; ls -A /dev/shm | wc -l; true")
        self.assertRegex(done.stdout, r"shared memory\n0\n")

    def test_a_database_that_cannot_be_read(self) -> None:
        for before, why in (("truncate -s 4096 /dev/shm/*", "another size"),
                            ("chmod 644 /dev/shm/*", "open to other users")):
            done = self.inside(f"{OPTIONS.holder} </dev/null; {before}")
            self.assertEqual((done.returncode, done.stdout), (1, "held\n"), done.stderr)
            self.assertRegex(done.stderr, "dat-info: the database of shared memory cannot be read: "
                             f"the file in /dev/shm .*{why}")

    def test_records_of_any_content(self) -> None:
        size = 4096 * 72
        for byte in ("\\001", "\\177", "\\377"):
            done = self.inside(f"{OPTIONS.holder} </dev/null >/dev/null; for f in /dev/shm/*; do "
                               f"head -c {size} /dev/zero | tr '\\0' '{byte}' >$f; done", "--json")
            self.assertEqual((done.returncode, done.stderr), (0, ""), byte)
            for each in json.loads(done.stdout)["names"]:
                self.assertEqual(each["users"], 0)
                self.assertFalse(any(region["lives"] for region in each["regions"]))


class Registry(WithFolder):
    def test_a_malformed_line(self) -> None:
        conf = self.write(self.provider("fine"), "odd u2.0 sometimes default x.so x.1.0 \"\" \"\"",
                          "short u2.0")
        run = Run(conf)
        self.assertEqual(run.status, 0, run.output)
        self.assertIn(f"{conf}:2: field 3, the thread safety: expected threadsafe or nonthreadsafe,"
                      " found 'sometimes'; the line is ignored", run.words)
        self.assertIn(f"{conf}:3: expected 8 fields, found 2", run.words)
        self.assertEqual(run.output.count("sometimes"), 1)  # reported once, not by each child
        run = Run(conf, "--adapter", "odd")
        self.assertEqual(run.status, 3, run.output)
        self.assertIn(f"{conf}:2 defines it, but is malformed", run.words)

    def test_lines_for_others(self) -> None:
        kernel = self.provider("inside").replace(" u2.0 ", " k2.0 ")
        other = self.provider("spare").replace(" default ", " nondefault ")
        old = self.provider("old").replace(" u2.0 ", " u1.2 ")
        conf = self.write(self.provider("fine"), kernel, other, old)
        run = Run(conf)
        self.assertEqual(run.status, 0, run.output)
        self.assertIn("2 lines are for the kernel or nondefault", run.words)
        self.assertIn("programs that use DAT 1.2", run.words)
        self.assertIn(f"{conf}:2: inside is ignored, because it is for the kernel",
                      Run(conf, "--verbose").words)
        run = Run(conf, "--adapter", "spare")
        self.assertEqual(run.status, 3, run.output)
        self.assertIn(f"{conf}:3 defines it, but not for DAT 2.0 programs: u2.0 nonthreadsafe "
                      "nondefault", run.words)

    def test_names_that_are_no_text(self) -> None:
        line = self.provider("bad").replace("bad ", "b\xe4d\x01 ")
        self.conf.write_bytes(line.encode("latin-1") + b"\n")
        run = Run(self.conf, "--json")
        self.assertEqual([each["name"] for each in run.data["adapters"]], ["b\ufffdd\x01"])

    def test_an_unknown_name(self) -> None:
        run = Run(self.write(self.provider("fine"), self.provider("good")), "--adapter", "unknown")
        self.assertEqual(run.status, 3, run.output)
        self.assertIn("no adapter unknown", run.output)
        self.assertIn("fine, good", run.output)

    def test_several_names(self) -> None:
        conf = self.write(self.provider("fine"), self.provider("spare"),
                          self.provider("bad", "open_fails"))
        for names, status in ((["fine"], 0), (["fine", "spare"], 0), (["fine", "bad"], 1),
                              (["fine", "unknown"], 3), (["fine", "--adapter", "spare"], 0)):
            run = Run(conf, *names, "--json")
            self.assertEqual(run.status, status, (names, run.output))
            self.assertEqual(set(run.adapters), set(names) - {"unknown", "--adapter"})
        self.assertIn("no adapter unknown", Run(conf, "fine", "unknown").output)
        self.assertRegex(Run(conf, "fine", "spare").output, r"(?s)max_eps.*max_eps")

    def test_a_file_that_cannot_be_read(self) -> None:
        run = Run(self.folder / "none.conf")
        self.assertEqual(run.status, 3, run.output)
        self.assertIn("none.conf, named by DAT_OVERRIDE, cannot be read: No such file", run.words)
        self.assertIn("correct or unset DAT_OVERRIDE", run.words)

    def test_the_second_variable(self) -> None:
        run = Run(None, DAT_CONF=str(self.write(self.provider("fine"))))
        self.assertEqual(run.status, 0, run.output)
        self.assertIn("named by DAT_CONF", run.output)

    def test_an_empty_file(self) -> None:
        run = Run(self.write("# nothing"))
        self.assertEqual(run.status, 3, run.output)
        self.assertIn("defines no adapters", run.output)

    def test_the_file_of_the_system(self) -> None:
        """Whether a dat.conf is found or not, the output shows where it was searched for."""
        run = Run(None, "--json")
        path = run.data["registry"]["path"]
        self.assertIsNone(run.data["registry"]["named_by"])
        if path is None:
            self.assertEqual(run.status, 3)
            self.assertIn("no dat.conf was found, so there are no adapters", run.data["trouble"])
            self.assertRegex(" ".join(run.data["trouble"]), "/etc/dat.conf: No such file")
        else:
            self.assertRegex(path, "/dat.conf$")

    def test_no_file_at_all(self) -> None:
        empty = self.folder / "etc"
        empty.mkdir()
        hide = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
                f'mount --bind {empty} /etc && exec "$0" "$@"']
        if subprocess.run([*hide, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no mount namespace to hide /etc in")
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("DAT_OVERRIDE", "DAT_CONF")}
        done = subprocess.run([*hide, OPTIONS.program], capture_output=True, text=True,
                              env=environment, check=False)
        if "named by" in done.stdout or "the system's" in done.stdout:
            self.skipTest("this build has a dat.conf in its own sysconfdir")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("no dat.conf was found, so there are no adapters", done.stdout)
        self.assertIn("neither DAT_OVERRIDE nor DAT_CONF is set", done.stdout)
        self.assertIn("/etc/dat.conf: No such file or directory", done.stdout)


class Usage(unittest.TestCase):
    def test_wrong_usage(self) -> None:
        for arguments in (["--nonsense"], ["--timeout", "0"], ["--adapter"]):
            run = Run(None, *arguments)
            self.assertEqual(run.status, 2, (arguments, run.output))
            self.assertTrue(run.output.startswith("dat-info: "), run.output)

    def test_output_that_cannot_be_written(self) -> None:
        with open("/dev/full", "w") as full:
            done = subprocess.run([OPTIONS.program, "--help"], stdout=full, stderr=subprocess.PIPE,
                                  text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("No space left on device", done.stderr)

    def test_help_and_version(self) -> None:
        self.assertEqual(Run(None, "--help").status, 0)
        self.assertRegex(Run(None, "--version").output, r"^dat-info \d+\.\d+\.\d+\n$")


def on_terminal(conf: pathlib.Path, changes: dict[str, str]) -> str:
    """What the program writes to a terminal."""
    ours, its = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    environment.update(changes, DAT_OVERRIDE=str(conf), TERM="xterm")
    subprocess.run([OPTIONS.program], stdout=its, stderr=its, env=environment, check=False)
    os.close(its)
    seen = b""
    try:
        while part := os.read(ours, 4096):
            seen += part
    except OSError:  # its end is closed
        pass
    os.close(ours)
    return seen.decode()


class Watch(WithFolder):
    """Counters of running programs, among which may be programs of other tests."""

    def start(self, *command: str, **more) -> subprocess.Popen:
        program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **more)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        return program

    def server(self, counters: str = "2") -> subprocess.Popen:
        program = self.start(OPTIONS.hello, "server", "soft-lo",
                             env={**os.environ, "DAT_OVERRIDE": OPTIONS.dat_conf,
                                  "DAPL_COUNTERS": counters})
        self.assertIn("waiting on port", program.stdout.readline())
        return program

    def holder(self, body: str) -> subprocess.Popen:
        """A process with a file of the name that offers have."""
        program = self.start(sys.executable, "-c",
                             f"import os, time\nfile = os.memfd_create('dapl-counters-1')\n{body}\n"
                             "print('held', flush=True)\ntime.sleep(100)")
        self.assertEqual(program.stdout.readline(), "held\n")
        return program

    def offers(self, *arguments: str) -> dict[int, dict]:
        run = subprocess.run([OPTIONS.program, "--watch", "--looks", "1", "--json", *arguments],
                             capture_output=True, text=True, timeout=100, check=False)
        if run.returncode == 3:
            self.assertIn("DAPL_COUNTERS=2", run.stderr)
            return {}
        self.assertEqual(run.returncode, 0, run.stderr)
        return {each["process"]: each for each in json.loads(run.stdout)["offers"]}

    def test_a_program_that_runs_and_one_that_offers_nothing(self) -> None:
        quiet = self.server("1")
        self.assertNotIn(quiet.pid, self.offers())
        quiet.kill()
        quiet.wait()
        program = self.server()
        found = self.offers()[program.pid]
        self.assertEqual(found["adapter"], "soft-lo")
        self.assertIn(found["program"], pathlib.Path(OPTIONS.hello).name)
        counters = found["counters"]
        self.assertEqual([counters[f"DCNT_IA_{what}_CREATE"] for what in ("PZ", "PSP")], [1, 1])
        self.assertGreaterEqual(counters["DCNT_EVD_WAIT_BLOCKED"], 0)
        self.assertIn(program.pid, self.offers("soft-lo"))
        self.assertNotIn(program.pid, self.offers("soft-udp"))
        text = Run(None, "--watch", "--looks", "1")
        self.assertRegex(text.output, rf"process {program.pid} \(.*\), soft-lo\n +counter +total\b")
        self.assertNotRegex(text.output, r"\n +DCNT_\w+ +0\b")

    def test_operations_are_counted_while_they_run(self) -> None:
        program = self.start(OPTIONS.dat_perf, "soft-lo", "--tests", "bandwidth", "--duration", "20",
                             stderr=subprocess.DEVNULL,
                             env={**os.environ, "DAT_OVERRIDE": OPTIONS.dat_conf,
                                  "DAPL_COUNTERS": "2"})
        until = time.monotonic() + 60
        posted = 0
        while posted == 0 and time.monotonic() < until:
            posted = max([each["counters"]["DCNT_EP_POST_SEND"] +
                          each["counters"]["DCNT_EP_POST_WRITE"]
                          for each in self.offers().values() if each["program"] == "dat-perf"],
                         default=0)
        self.assertGreater(posted, 0)
        program.terminate()

    def test_the_watch_ends_with_the_last_program(self) -> None:
        program = self.server()
        watch = self.start(OPTIONS.program, "--watch", "--interval", "0.1", "soft-lo")
        for line in watch.stdout:
            if f"process {program.pid} " in line:
                break
        for line in watch.stdout:
            if "per second" in line:
                break
        program.kill()
        program.wait()
        rest = watch.stdout.read()
        self.assertEqual(watch.wait(timeout=60), 0)
        self.assertIn(f"process {program.pid} ", rest)
        self.assertIn("the program has ended, or closed the adapter", rest)

    def test_a_forked_child_is_not_a_second_offer(self) -> None:
        size = self.size_of_offers()
        program = self.holder(f"os.ftruncate(file, {size})\nos.set_inheritable(file, True)\n"
                              "os.fork() or time.sleep(5) or os._exit(0)")
        self.assertIn(program.pid, self.offers())
        run = Run(None, "--watch", "--looks", "1", "--json")
        self.assertEqual(len([each for each in run.data["offers"] if each["adapter"] == ""]), 1)

    def size_of_offers(self) -> int:
        program = self.server()
        for link in pathlib.Path(f"/proc/{program.pid}/fd").iterdir():
            if "dapl-counters" in os.readlink(link):
                return link.stat().st_size
        raise AssertionError("the program offers no file")

    def test_pages_of_any_content_and_size(self) -> None:
        size = self.size_of_offers()
        rubbish = self.holder(f"os.write(file, b'\\xff\\x1b[31m' * {size} )\n"
                              f"os.ftruncate(file, {size})")
        found = self.offers()[rubbish.pid]
        self.assertRegex(found["adapter"], r"^(\?\?\[31m)+\??\??\[?3?1?m?$")
        self.assertTrue(all(each.isprintable() and each.isascii() for each in found["adapter"]))
        text = Run(None, "--watch", "--looks", "1").output
        self.assertNotIn("\x1b", text)
        for other in (0, size - 1, size + 1, 1 << 40):
            program = self.holder(f"os.ftruncate(file, {other})")
            self.assertNotIn(program.pid, self.offers(), other)

    @unittest.skipUnless(os.geteuid() == 0, "it starts a program of another user")
    def test_programs_of_other_users_are_left_alone(self) -> None:
        size = self.size_of_offers()
        other = self.holder("os.setuid(65534)\nother = os.memfd_create('dapl-counters-1')\n"
                            f"os.ftruncate(other, {size})")
        own = self.holder(f"os.ftruncate(file, {size})")
        offers = self.offers()
        self.assertIn(own.pid, offers)
        self.assertNotIn(other.pid, offers)


def symbols(which: str, path) -> set[str]:
    answer = subprocess.run(["nm", "-D", which, str(path)], capture_output=True, text=True,
                            check=True)
    return {line.split()[-1].split("@")[0] for line in answer.stdout.splitlines()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--broken-provider", required=True)
    parser.add_argument("--holder", required=True)
    parser.add_argument("--hello", required=True)
    parser.add_argument("--dat-perf", required=True)
    parser.add_argument("--dat-conf", required=True)
    parser.add_argument("--system-libdat2", default="/nonexistent")
    rest = parser.parse_known_args(namespace=OPTIONS)[1]
    program = unittest.main(argv=[sys.argv[0], *rest], exit=False)
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
