#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Each call has, in each state, the answer in the file of its adapter in answers/.

A difference is a fault, or a change that has to be in docs/calls.md: --renew writes the file anew,
and gen/call_answers.py the page from it. A state that is not reached is a difference as well. A
state that the file has no answers for is left out: a device that is slow now may pass through it.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ANSWERS = pathlib.Path(__file__).resolve().with_name("answers")
ATTEMPTS = 2  # a state between two others may pass by on a busy machine
SKIPPED = 77
NO_DEVICE = 3


def flat(answers: dict) -> dict[tuple[str, str, str], str | None]:
    return {(of, call, state): answer for of, calls in answers.items()
            for call, states in calls.items() for state, answer in states.items()}


def differences(stored: dict, observed: dict) -> list[str]:
    was, now = flat(stored), flat(observed)
    entered = {(of, state) for (of, _, state), answer in was.items() if answer is not None}
    known = {(of, state) for of, _, state in was}
    return [f"{of}, {call}, {state}: {was.get((of, call, state), 'no row')} in the file,"
            f" {now.get((of, call, state), 'no row')} now"
            for of, call, state in {**was, **now}
            if was.get((of, call, state), "") != now.get((of, call, state), "")
            and ((of, state) in entered or (of, state) not in known)]


def judged(command: list[str], stored: pathlib.Path, observed: pathlib.Path) -> list[str]:
    done = subprocess.run([*command, "--calls", str(observed)], check=False)
    if done.returncode == NO_DEVICE:
        sys.exit(SKIPPED)
    if done.returncode:
        return [f"dapl-conformance --calls ends with {done.returncode}"]
    if stored == observed:
        return []
    if not stored.exists():
        return [f"there is no {stored}"]
    return differences(json.loads(stored.read_text())["answers"],
                       json.loads(observed.read_text())["answers"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conformance", required=True, metavar="PROGRAM")
    parser.add_argument("--ia", required=True)
    parser.add_argument("--renew", action="store_true", help="write the file of the adapter anew")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FILE", help="leave the answers there")
    options, rest = parser.parse_known_args()
    stored = ANSWERS / f"{options.ia}.json"
    command = [options.conformance, "--ia", options.ia, *rest]
    found: list[str] = []
    with tempfile.TemporaryDirectory(prefix="answers-") as folder:
        observed = stored if options.renew else options.keep or pathlib.Path(folder) / "answers"
        for _ in range(ATTEMPTS):
            found = judged(command, stored, observed)
            if not found:
                return 0
    print(*found, "If that is as it shall be: the same command with --renew, and then"
          " python3 gen/call_answers.py", sep="\n", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
