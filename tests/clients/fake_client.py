# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A stand-in for a DAT client, to test the runner: fake_client.py ROLE BEHAVIOUR [PORT].

It maps the files that the loader would have taken, and then behaves as told.
"""

import mmap
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

KEPT = []
MAPPED = []
HOST = os.environ.get("FAKE_HOST", "127.0.0.1")


def map_file(path: pathlib.Path) -> None:
    with path.open("rb") as stream:
        KEPT.append(mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ))
    MAPPED.append(path)


def log_as_the_loader() -> None:
    """It is asked to, and a busy runner may not see a short life in /proc."""
    with open(f"{os.environ['LD_DEBUG_OUTPUT']}.{os.getpid()}", "a") as log:
        log.writelines(f"\tcalling init: {path}\n" for path in MAPPED)


def map_libraries(behaviour: str) -> None:
    folder = pathlib.Path(os.environ["LD_LIBRARY_PATH"])
    if behaviour == "wrong-library":
        folder = folder.parent / "other"
    map_file(folder / "libdat2.so.2")
    if behaviour == "no-provider":
        return
    for line in pathlib.Path(os.environ["DAT_OVERRIDE"]).read_text().splitlines():
        if line.startswith("fake-lo "):
            map_file(pathlib.Path(line.split()[4]))


def serve(port: int) -> socket.socket:
    listener = socket.create_server((HOST, port))
    print("ready", flush=True)
    return listener


def behave(behaviour: str) -> int:
    if behaviour == "hang":
        # A child that would outlive a kill of this process alone, and whose end takes a while.
        child = subprocess.Popen(
            [sys.executable, "-c",
             "import time; much = b'x' * (256 << 20); print('has much', flush=True); time.sleep(600)"],
            stdout=subprocess.PIPE)
        child.stdout.readline()
        print(f"child {child.pid}", flush=True)
        time.sleep(600)
    if behaviour == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if behaviour == "fail":
        print("1: DAPL Test Complete. FAILED")
        return 0
    if behaviour == "status":
        print("1: DAPL Test Complete. PASSED")
        return 3
    if behaviour == "host":
        print(os.readlink("/proc/self/ns/net"))
    if behaviour == "silent":
        return 0
    if behaviour == "our-finding":
        print("==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x1")
        print("    #0 0x1 in free (/lib/libasan.so.8+0x1)")
        print("    #1 0x2 in thing ../common/ep.cpp:7")
        print("SUMMARY: AddressSanitizer: heap-use-after-free ../common/ep.cpp:7 in thing")
    if behaviour == "foreign-finding":
        print("=================================================================")
        print("==1==ERROR: LeakSanitizer: detected memory leaks\n")
        print("Direct leak of 8 byte(s) in 1 object(s) allocated from:")
        print("    #0 0x1 in malloc (/lib/libasan.so.8+0x1)")
        print("    #1 0x2 in main (/usr/bin/dtest+0x1)\n")
        print("SUMMARY: AddressSanitizer: 8 byte(s) leaked in 1 allocation(s).")
    print("1: DAPL Test Complete. PASSED")
    return 0


def main() -> int:
    role, behaviour = sys.argv[1:3]
    if behaviour == "early-exit":
        return 0
    map_libraries(behaviour)
    if behaviour == "unlogged":
        time.sleep(3)
    else:
        log_as_the_loader()
    if behaviour == "never-ready":
        time.sleep(600)
    if role == "server":
        with serve(int(sys.argv[3])) as listener:
            listener.accept()[0].close()
    elif len(sys.argv) > 3:
        socket.create_connection((HOST, int(sys.argv[3]))).close()
    time.sleep(0.5)
    return behave(behaviour)


sys.exit(main())
