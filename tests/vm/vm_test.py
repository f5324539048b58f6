#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests of tools/vm/run-in-vm. A boot takes seconds, so each looks at many things.

Usage: vm_test.py RUN_IN_VM [unittest's arguments]. Ends with 77 if no machine can run here.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

RUN_IN_VM = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(RUN_IN_VM.parent))
sys.dont_write_bytecode = True
import image  # noqa: E402
VERBS = {"ibv_devinfo": "ibverbs-utils", "ibv_rc_pingpong": "ibverbs-utils",
         "rping": "rdmacm-utils"}


def command(*arguments: str) -> list[str]:
    return [sys.executable, str(RUN_IN_VM), *arguments]


def run(*arguments: str, **more) -> subprocess.CompletedProcess:
    return subprocess.run(command(*arguments), capture_output=True, check=False, **more)


CHECK = run("--check")
needs_machine = unittest.skipIf(CHECK.returncode == 77, CHECK.stderr.decode().strip())


def machines(word: str) -> list[str]:
    """The QEMU processes with this word in their command lines."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if words.startswith("qemu-system") and word in words:
            found.append(entry.parent.name)
    return found


class World(unittest.TestCase):
    """A folder to write to, whose name also tells our machines from others."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="vm-test.")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.writable = self.root / "a writable, 'quoted' folder"
        self.writable.mkdir()
        self.scratch = self.root / "scratch"  # TMPDIR of what we start
        self.scratch.mkdir()
        self.environment = {**os.environ, "TMPDIR": str(self.scratch)}

    def in_vm(self, script: str, *options: str, **more) -> subprocess.CompletedProcess:
        done = run("--writable", str(self.writable), *options, "--", "bash", "-euc", script,
                   **{"env": self.environment, "cwd": self.root, **more})
        self.assert_nothing_left()
        return done

    def assert_nothing_left(self):
        self.assertEqual(machines(self.root.name), [])
        self.assertEqual([*self.scratch.iterdir()], [])

    def assert_status(self, done: subprocess.CompletedProcess, status: int):
        self.assertEqual(done.returncode, status,
                         (done.stdout + done.stderr).decode(errors="replace"))


class WithoutMachine(World):
    def test_missing_qemu_is_a_skip_with_cause_and_way_out(self):
        for what in (("--check",), ("--", "true")):
            done = run(*what, env={**self.environment, "PATH": "/nowhere"})
            self.assert_status(done, 77)
            self.assertEqual(done.stdout, b"")
            self.assertRegex(done.stderr.decode(), r"^run-in-vm: qemu-system-x86_64.* is missing; "
                                                   r".*apt-get install .*qemu-system-x86.*\n$")

    @unittest.skipUnless(shutil.which("qemu-system-x86_64"), "no qemu")
    def test_unprepared_or_stale_cache_is_a_skip_with_cause_and_way_out(self):
        (self.root / "6.1.0-1-amd64-0123456789ab").mkdir()
        (self.root / "default-0123456789ab").symlink_to("6.1.0-1-amd64-0123456789ab")
        (self.root / "sid-0123456789ab").symlink_to("6.1.0-1-amd64-0123456789ab")
        for which in ((), ("--kernel", "6.1.0-1-amd64"), ("--kernel", "sid")):
            done = run("--cache", str(self.root), *which, "--", "true")
            self.assert_status(done, 77)
            self.assertRegex(done.stderr.decode(), r"^run-in-vm: .* is not prepared, .*; run: "
                             rf".*--prepare{' '.join(('', *which))} .*\n$")

    @unittest.skipUnless(shutil.which("qemu-system-x86_64"), "no qemu")
    def test_suite_that_cannot_be_had(self):
        """Whether there is a network or not."""
        done = run("--cache", str(self.root), "--prepare", "--kernel", "no-such-suite")
        self.assert_status(done, 77)
        self.assertRegex(done.stderr.decode(), r"run-in-vm: the lists of Debian's suite "
                                               r"no-such-suite could not be fetched; .*\n$")
        self.assertEqual(sorted(path.name for path in self.root.iterdir()),
                         ["a writable, 'quoted' folder", "lock", "scratch"])

    def test_packages_of_a_kernel(self):
        """In one package, as with Debian 12, and in parts, as newer ones are.

        A package has a version where another needs exactly that: a mirror may have dropped others.
        """
        depends = {
            "linux-image-amd64": "linux-base-amd64 (= 7.2.1-1), linux-image-7.2.1+deb14-amd64",
            "linux-image-6.1.0-1-amd64": "kmod, linux-base (>= 4.3~), initramfs-tools | dracut",
            "linux-headers-6.1.0-1-amd64":
                "linux-headers-6.1.0-1-common (= 6.1.1-1), linux-kbuild-6.1 (>= 6.1.1-1), gcc-12",
            "linux-image-7.2.1+deb14-amd64":
                "dracut | initramfs-tools, linux-base-7.2.1+deb14-amd64 (= 7.2.1-1), "
                "linux-binary-7.2.1+deb14-amd64, linux-modules-7.2.1+deb14-amd64 (= 7.2.1-1)",
            "linux-headers-7.2.1+deb14-amd64":
                "gcc-16-for-host, linux-base (>= 4.12~), linux-base-7.2.1+deb14-amd64, "
                "linux-headers-7.2.1+deb14-common, linux-kbuild-7.2.1+deb14",
            "linux-kbuild-7.2.1+deb14": "pahole, libc6 (>= 2.38), libelf1t64, zlib1g (>= 1:1.2)",
        }

        class Fake(image.Packages):
            def record(self, package):
                name = package.partition("=")[0]
                return f"Package: {name}\nVersion: 1-1\nDepends: {depends[name]}\n"

        self.assertEqual(Fake((), newer=True).newest_release(), "7.2.1+deb14-amd64")
        self.assertEqual(
            Fake((), newer=False).of_kernel("6.1.0-1-amd64"),
            ["linux-image-6.1.0-1-amd64=1-1", "linux-headers-6.1.0-1-amd64=1-1",
             "linux-headers-6.1.0-1-common=6.1.1-1", "linux-kbuild-6.1", "linux-source-6.1=1-1",
             "busybox-static"])
        self.assertEqual(
            Fake((), newer=True).of_kernel("7.2.1+deb14-amd64"),
            ["linux-image-7.2.1+deb14-amd64=1-1", "linux-base-7.2.1+deb14-amd64=7.2.1-1",
             "linux-binary-7.2.1+deb14-amd64", "linux-modules-7.2.1+deb14-amd64=7.2.1-1",
             "linux-headers-7.2.1+deb14-amd64=1-1", "linux-headers-7.2.1+deb14-common",
             "linux-kbuild-7.2.1+deb14", "linux-source-7.2=1-1",
             "libc6", "libelf1t64", "zlib1g", "libzstd1", "busybox-static"])

    def test_usage(self):
        for wrong in ((), ("true",), ("--",), ("--check", "--", "true"),
                      ("--writable", "/nowhere", "--", "true")):
            self.assert_status(run(*wrong), 2)
        self.assert_status(run("--help"), 0)


@needs_machine
class Machine(World):
    def test_output_and_status(self):
        """Status 3; both streams whole; surroundings as promised; the host's files unchanged."""
        all_bytes = bytes(range(256)) * 4096
        (self.root / "bytes").write_bytes(all_bytes)
        done = self.in_vm(
            """
            cat bytes
            tr '\\000-\\377' '\\001-\\377\\000' <bytes >&2
            sleep 1000 &  # holds the streams open, and shall not hold us up
            {
                pwd; echo "$GIVEN,$PASSED,${UNSET-unset},${LEAKED-unset},$*"
                ulimit -l; getent hosts "$(hostname)" >/dev/null; nproc
                wc -c </dev/stdin
                for folder in /tmp /run /dev/shm; do echo x >$folder/x; cat $folder/x; done
            } >"$WRITABLE/surroundings"
            echo changed >bytes; rm -r scratch; echo new >new
            exit 3
            """,
            "--env", "GIVEN=a 'b' $c\nd", "--env", "PASSED", "--env", "UNSET",
            "--env", f"WRITABLE={self.writable}", "--cpus", "1",
            env={**self.environment, "PASSED": "\udcff", "LEAKED": "1"})
        self.assert_status(done, 3)
        self.assertEqual(done.stdout, all_bytes)
        self.assertEqual(done.stderr, all_bytes[1:] + all_bytes[:1])
        self.assertEqual(
            (self.writable / "surroundings").read_bytes(),
            b"%s\na 'b' $c\nd,\xff,unset,unset,\nunlimited\n1\n0\nx\nx\nx\n"
            % os.fsencode(self.root))
        self.assertEqual(sorted(path.name for path in self.root.iterdir()),
                         [self.writable.name, "bytes", "scratch"])
        self.assertEqual((self.root / "bytes").read_bytes(), all_bytes)

    def test_killed_by_signal(self):
        done = self.in_vm("echo before; kill -KILL $$")
        self.assert_status(done, 137)
        self.assertEqual((done.stdout, done.stderr), (b"before\n", b""))

    def test_timeout(self):
        """The timeout holds when the output is not read, too."""
        with subprocess.Popen(
                command("--writable", str(self.writable), "--timeout", "2", "--", "yes"),
                env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            self.assertEqual(process.wait(300), 124)
            self.assertEqual(process.stderr.read(), b"run-in-vm: not finished after 2 s\n")
        self.assert_nothing_left()

    def test_panic(self):
        done = self.in_vm("echo c >/proc/sysrq-trigger")
        self.assert_status(done, 125)
        self.assertRegex(done.stderr.decode(),
                         r"(?s)Kernel panic.*run-in-vm: the machine died; [^\n]*\n$")

    def test_signals(self):
        """Asked to end, or killed with no time to tidy up, we leave nothing."""
        for number, status in ((signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)):
            with subprocess.Popen(
                    command("--writable", str(self.writable), "--", "sleep", "1000"),
                    env=self.environment, stdout=subprocess.PIPE) as process:
                self.assertTrue(eventually(lambda: machines(self.root.name)))
                process.send_signal(number)
                self.assertEqual(process.wait(30), status)
            self.assertTrue(eventually(lambda: not machines(self.root.name)))
            self.assert_nothing_left()

    def test_reader_that_goes_away(self):
        with subprocess.Popen(command("--", "yes"), env=self.environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.read(1)
            process.stdout.close()
            self.assertEqual(process.wait(300), 128 + signal.SIGPIPE)

    @unittest.skipUnless(all(map(shutil.which, VERBS)),
                         f"on Debian: apt-get install {' '.join(sorted(set(VERBS.values())))}")
    def test_devices(self):
        self.judge_devices()

    @unittest.skipUnless(all(map(shutil.which, VERBS)), "as test_devices")
    @unittest.skipIf(run("--check", "--kernel", "sid").returncode == 77,
                     "the kernel of Debian sid is not prepared")
    def test_devices_with_a_newer_kernel(self):
        release = self.in_vm("uname -r", "--kernel", "sid").stdout.decode()
        self.assertIn(f"kernel {release}", run("--check", "--kernel", "sid").stdout.decode())
        self.judge_devices("--kernel", "sid")

    def judge_devices(self, *options: str):
        done = self.in_vm(
            r"""
            cd /tmp
            rdma link
            ibv_devinfo
            ip -brief address
            ibv_rc_pingpong -d rxe0 -g 1 -n 50 -e &
            until ss -ltn | grep -q :18515; do sleep 0.1; done
            ibv_rc_pingpong -d rxe0 -g 1 -n 50 -e localhost
            wait $!
            for address in siw0 rxe0 fd98::1 fd99::1; do
                rping -s -a $address -C 20 &
                until rdma resource show cm_id | grep -q LISTEN; do sleep 0.1; done
                rping -c -a $address -C 20 -V
                wait $!
            done
            echo all passed
            """, "--timeout", "120", *options)
        self.assert_status(done, 0)
        text = done.stdout.decode()
        for device in ("siw0", "rxe0"):
            self.assertRegex(text, rf"link {device}/1 state ACTIVE")
            self.assertRegex(text, rf"(?s)hca_id:\s+{device}\s(?:(?!hca_id).)*PORT_ACTIVE")
        self.assertRegex(text, r"10\.98\.0\.1/24 fd98::1/64")
        self.assertRegex(text, r"10\.99\.0\.1/24 fd99::1/64")
        self.assertIn("active_mtu:\t\t4096", text)
        self.assertTrue(text.endswith("all passed\n"), text)


def eventually(condition, seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


if __name__ == "__main__":
    outcome = unittest.main(exit=False).result
    if outcome.wasSuccessful() and CHECK.returncode == 77:
        print(CHECK.stderr.decode(), end="")
        sys.exit(77)
    sys.exit(not outcome.wasSuccessful())
