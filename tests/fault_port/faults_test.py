#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Under each fault the cases it names turn red, without a crash or a hang.

The faults are in faults.toml, and in the rows of the contract's table.

With --others some more cases are run under each, by a seed: a red one has to have met the fault.
With --sample some faults are run, each with one case, by a seed that is printed. With --explore all
cases are run under the faults that match, and those that turn red are listed. Each case is turned
red by a fault, or has an [[unnamed]] entry that says why not; --unnamed lists cases that have
neither, and runs nothing.
"""

import argparse
import concurrent.futures
import dataclasses
import fnmatch
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "gen"))
sys.dont_write_bytecode = True

import contract  # noqa: E402

KEYS = {"plan", "red", "green", "hangs", "options", "why"}
MOST_UNNAMED = 10


@dataclasses.dataclass(frozen=True)
class Fault:
    plan: str
    red: tuple[str, ...] = ()
    green: tuple[str, ...] = ()
    hangs: bool = False
    options: tuple[str, ...] = ()
    why: str = ""
    others: tuple[str, ...] = ()  # that may turn red, and say by which fault


class Suite:
    """dapl-conformance over the adapter that has the faults."""

    def __init__(self, options: argparse.Namespace):
        self._options = options

    def run(self, plan: str, cases: tuple[str, ...],
            options: tuple[str, ...] = ()) -> dict[str, dict]:
        with tempfile.TemporaryDirectory(prefix="faults-") as folder:
            card = pathlib.Path(folder) / "card.json"
            command = [self._options.conformance, "--ia", self._options.ia,
                       "--json", str(card), "--jobs", "4", "--timeout", "60", "--no-repeat",
                       *self._options.suite_options, *options]
            if "--patience" not in options:
                command += ["--patience", str(self._options.patience)]
            for case in cases:
                command += ["--case", case]
            environment = {**os.environ, "DAPL_FAULT": plan}
            if self._options.calls:
                environment["LD_PRELOAD"] = self._options.calls
            done = subprocess.run(command, env=environment, text=True, capture_output=True,
                                  check=False)
            if not card.exists():
                return {"": {"outcome": "error", "reason": done.stdout + done.stderr}}
            results = json.loads(card.read_text())
            if not results["results"]:
                device = results["device"]
                return {"": {"outcome": "error", "reason": device.get("reason", "") + "\n" +
                             device.get("output", "")}}
            return {each["rule"]: each for each in results["results"]}

    def timed(self, fault: Fault) -> tuple[float, dict[str, dict]]:
        began = time.monotonic()
        cases = fault.red + fault.green + fault.others
        results = self.run(fault.plan, cases, fault.options)
        # Cases that met no fault may just lack the time, on a busy machine.
        again = tuple(case for case in fault.others if is_unexplained(results.get(case)))
        if again and "--patience" not in fault.options:
            results |= self.run(fault.plan, again, (*fault.options, "--patience", "50"))
        return time.monotonic() - began, results


def ended_badly(result: dict, fault: Fault) -> bool:
    """A case that crashed or hung. Where the runner says so, it is the whole reason."""
    reason = result["reason"]
    if fault.hangs and reason.startswith("hangs"):
        return False
    return any(reason.startswith(word) for word in ("crashes", "hangs", "the process exits"))


def judge(fault: Fault, results: dict[str, dict]) -> list[str]:
    """The differences from the table."""
    if "" in results:
        return [f"the suite does not run: {results['']['reason']}"]
    wrong = []
    fine = ("passed",) if fault.plan else ("passed", "not claimed")
    for case in fault.red:
        result = results[case]
        if result["outcome"] != "failed":
            wrong.append(f"{case} is not red, but {result['outcome']}: {result['reason']}")
        elif ended_badly(result, fault):
            wrong.append(f"{case}: {result['reason']}\n{result.get('output', '')}")
    for case in fault.green:
        if results[case]["outcome"] not in fine:
            wrong.append(f"{case} is not green, but {results[case]['outcome']}: "
                         f"{results[case]['reason']}")
    wrong += [f"{case} is red, but met no fault: {results[case]['reason']}\n"
              f"{results[case].get('output', '')}"
              for case in fault.others if is_unexplained(results[case])]
    return wrong


def is_unexplained(result: dict | None) -> bool:
    """A case that is not named, and is red: its output tells of each fault that it met."""
    return (result is not None and result["outcome"] in ("failed", "error")
            and "DAPL_FAULT: " not in result.get("output", ""))


def judge_words(suite: Suite, rows: list[dict]) -> list[str]:
    """A plan with a wrong word opens no adapter, and says which word."""
    wrong = []
    for row in rows:
        told = suite.run(row["plan"], ("IA-04",)).get("", {}).get("reason", "the adapter opens")
        if row["says"] not in told:
            wrong.append(f"{row['plan']}: wanted '{row['says']}', but {told}")
    return wrong


def read_faults(rows: list[dict], path: pathlib.Path) -> list[Fault]:
    faults = []
    for row in rows:
        if unknown := set(row) - KEYS:
            sys.exit(f"{path}: {row.get('plan')}: unknown key {sorted(unknown)[0]}")
        faults.append(Fault(row["plan"], tuple(row.get("red", ())), tuple(row.get("green", ())),
                            row.get("hangs", False), tuple(row.get("options", ())),
                            row.get("why", "")))
    return faults


def subjects(header: pathlib.Path) -> list[str]:
    """What a fault can be of, by the names that plans have."""
    names = []
    for line in header.read_text().splitlines():
        if line.startswith('    {"'):
            names.append(line.split('"')[1])
    return names


def judge_subjects(faults: list[Fault], header: pathlib.Path) -> list[str]:
    patterns = [each.plan.split(":")[0] for each in faults]
    return [f"no fault is of {name}" for name in subjects(header)
            if name != "any" and not any(fnmatch.fnmatchcase(name, each) for each in patterns)]


def is_of_calls(fault: Fault) -> bool:
    return fault.plan.startswith("dat_") or "_event:" in fault.plan


def chosen(faults: list[Fault], options: argparse.Namespace) -> list[Fault]:
    if options.fault:
        faults = [each for each in faults
                  if any(fnmatch.fnmatchcase(each.plan, pattern) for pattern in options.fault)]
    if options.sample:
        seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
        print(f"a sample by seed {seed}: --sample {options.sample} --seed {seed}")
        faults = [dataclasses.replace(each, red=each.red[:1], green=each.green[:1])
                  for each in random.Random(seed).sample(
                      [each for each in faults if not each.hangs], options.sample)]
    return faults


def controls(faults: list[Fault]) -> list[Fault]:
    """Runs the cases of the faults without a fault, with their options: they pass, so the fault
    turns them red.
    """
    by_options: dict[tuple[str, ...], set[str]] = {}
    for fault in faults:
        by_options.setdefault(fault.options, set()).update(fault.red)
    return [Fault("", green=tuple(sorted(cases)), options=options)
            for options, cases in by_options.items() if cases]


# What a storm is made of: any operation that can fail does now and then, completions fail, upcalls
# are late or come twice. Nothing here breaks a promise on which the common layer has to rely.
STORM = ("any:~{n}:DAT_INSUFFICIENT_RESOURCES/DAT_RESOURCE_MEMORY",
         "completion:~{n}:status=DAT_DTO_ERR_LOCAL_PROTECTION", "completion:~{n}:late=3",
         "evd_dto_callback:~{n}:twice", "evd_connection_callback:~{n}:slow=3",
         "evd_connection_callback:~{n}:twice", "evd_qp_async_error_callback:~{n}:early",
         "cr_callback:~{n}:skip", "disconnect:~{n}:slow=3", "qp_free:~{n}:slow=3")


def broke_off(result: dict) -> bool:
    """A case that failed, and then waits for a thread of its own which nothing sends home."""
    return result["reason"].startswith("hangs") and bool(result.get("further_failures"))


def storm(suite: Suite, number: int) -> list[str]:
    """The errors after all cases were run under a plan of faults that come by chance."""
    chance = random.Random(number)
    words = [each.format(n=chance.choice((4, 16, 64)))
             for each in chance.sample(STORM, 4)]
    plan = ",".join([f"seed:{number}", *words])
    print(plan, flush=True)
    return [f"{rule}: {result['reason']}\n{result.get('output', '')}"
            for rule, result in suite.run(plan, ()).items()
            if result["outcome"] in ("failed", "error") and not broke_off(result)
            and ended_badly(result, Fault(plan))]


def explore(suite: Suite, faults: list[Fault]) -> None:
    for fault in faults:
        results = suite.run(fault.plan, ())
        print(fault.plan)
        for rule, result in results.items():
            if result["outcome"] in ("failed", "error"):
                unexplained = " (UNEXPLAINED)" if is_unexplained(result) else ""
                print(f"    {rule:<10} {result['outcome']}{unexplained}: {result['reason'][:160]}",
                      flush=True)


def with_others(faults: list[Fault], unharmed: list[Fault], number: int, seed: int) -> list[Fault]:
    """Adds cases that a fault does not name, and that pass without it, to each fault."""
    passing = {control.options: control.green for control in unharmed}

    def drawn(fault: Fault) -> tuple[str, ...]:
        left = sorted(set(passing.get(fault.options, ())) - {*fault.red, *fault.green})
        return tuple(random.Random(f"{seed} {fault.plan}").sample(left, min(number, len(left))))
    return [dataclasses.replace(fault, others=drawn(fault)) for fault in faults]


def judge_unnamed(options: argparse.Namespace, faults: list[Fault], rows: list[dict]) -> list[str]:
    """Cases that no fault of the table is to turn red, without a reason; and reasons too many."""
    listed = subprocess.run([options.conformance, "--list"], text=True, capture_output=True,
                            check=True).stdout.splitlines()
    red = {case for fault in faults for case in fault.red}
    excused = {row["case"]: row["why"] for row in rows}
    cases = {line.split()[0] for line in listed}
    wrong = [f"no fault turns red: {line}" for line in listed
             if line.split()[0] not in red | set(excused)]
    wrong += [f"{case} is [[unnamed]], and a fault turns it red" for case in excused if case in red]
    wrong += [f"there is no case {case}" for case in sorted((red | set(excused)) - cases)]
    if len(excused) > MOST_UNNAMED:
        wrong.append(f"{len(excused)} cases are [[unnamed]], more than {MOST_UNNAMED}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conformance", required=True)
    parser.add_argument("--ia", required=True)
    parser.add_argument("--calls", help="the library that has the faults of DAT's calls, to be "
                        "preloaded; without it there are none of these")
    parser.add_argument("--table", type=pathlib.Path, required=True)
    parser.add_argument("--contract-table", type=pathlib.Path, required=True,
                        help="dapls_ib.toml")
    parser.add_argument("--subjects", type=pathlib.Path,
                        help="fault_subjects.hpp: each of its names has a fault")
    parser.add_argument("--fault", action="append", help="only plans that match this pattern")
    parser.add_argument("--sample", type=int, metavar="N", help="N faults, chosen at random")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--patience", type=float, default=6,
                        help="more than a refusal takes, which is tried again for two seconds")
    parser.add_argument("--jobs", type=int, default=2 * len(os.sched_getaffinity(0)))
    parser.add_argument("--words", action="store_true", help="plans that are none, too")
    parser.add_argument("--storms", type=int, default=0, metavar="N",
                        help="all cases under N plans of faults by chance: nothing crashes or hangs")
    parser.add_argument("--others", type=int, default=0, metavar="N",
                        help="under each fault N cases that it does not name, by the seed")
    parser.add_argument("--explore", action="store_true")
    parser.add_argument("--unnamed", action="store_true",
                        help="list the cases that no fault is to turn red, and exit")
    options, options.suite_options = parser.parse_known_args()
    table = tomllib.loads(options.table.read_text())
    rows = contract.faults_of_rows(contract.read_table(options.contract_table))
    faults = read_faults(table["fault"] + rows, options.table)
    wrong = judge_unnamed(options, faults, table["unnamed"])
    if options.unnamed:
        print("\n".join(wrong))
        return 0
    wrong += judge_subjects(faults, options.subjects) if options.subjects else []
    began = time.monotonic()
    suite = Suite(options)
    wrong += judge_words(suite, table["wrong"]) if options.words else []
    failures = wrong
    if not options.calls:
        faults = [each for each in faults if not is_of_calls(each)]
    faults = chosen(faults, options)
    first = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    for number in range(first, first + options.storms):
        failures += storm(suite, number)
    if options.explore:
        explore(suite, faults)
        return 0
    unharmed = controls(faults)
    faults = with_others(faults, unharmed, options.others, first)
    alone = list(map(suite.timed, unharmed))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for fault, (seconds, results) in zip(
                unharmed + faults, itertools.chain(alone, pool.map(suite.timed, faults))):
            wrong = judge(fault, results)
            print(f"{'FAIL' if wrong else 'ok  '} {seconds:5.1f} s  {fault.plan or 'no fault'}",
                  flush=True)
            if wrong:
                failures.append("\n".join([fault.plan or "no fault", *wrong]))
    for failure in failures:  # at the end, which is what logs keep of a long output
        print("FAIL " + failure.replace("\n", "\n     "))
    print(f"{len(faults)} faults, {len(failures)} failed, {time.monotonic() - began:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
