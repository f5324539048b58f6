#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Run Debian's unmodified DAT programs over an adapter of ours and judge their output.

Each case is a server and its clients. A case passes if both sides print what they must and nothing
they must not, if no process hangs or crashes, and if each process was seen, in its own memory map,
to use the libdat2 and the provider that were asked for.

Cases are selected by name or pattern, or by tag with a leading @: --select 'dtest*,@smoke'.
"""

import argparse
import contextlib
import fnmatch
import json
import pathlib
import re
import resource
import signal
import sys
import time

import cases
import runner
import two_hosts

SKIPPED = 77


def share(text: str) -> tuple[int, int]:
    which, _, of = text.partition("/")
    if not (which.isdigit() and of.isdigit() and 1 <= int(which) <= int(of)):
        raise argparse.ArgumentTypeError(f"{text!r} is not like 1/2")
    return int(which), int(of)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--libdat2", type=pathlib.Path, metavar="DIR",
                        help="folder of the libdat2.so.2 to use, ours or the system's")
    parser.add_argument("--dat-conf", type=pathlib.Path, metavar="FILE",
                        help="the dat.conf that names the adapter (goes into DAT_OVERRIDE)")
    parser.add_argument("--adapter", default="ofi-lo", help="adapter name (default: %(default)s)")
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS",
                        help="at which the adapter's clients find a server (default: %(default)s)")
    parser.add_argument("--two-hosts", action="store_true",
                        help="run servers and clients in two network namespaces joined by a "
                        "cable; the adapter's interface lo becomes the cable (needs root)")
    parser.add_argument("--server-user", default="", metavar="NAME",
                        help="run servers as this user, who must be able to read the libraries "
                        "(needs root)")
    parser.add_argument("--rounds", type=int, default=1, metavar="N",
                        help="how often to run the selection (default: 1)")
    parser.add_argument("--select", default="@default", metavar="NAMES",
                        help="comma-separated names, patterns, @tags (default: %(default)s)")
    parser.add_argument("--share", type=share, default=(1, 1), metavar="K/N",
                        help="run every Nth selected case, beginning with the Kth")
    parser.add_argument("--fail-fast", action="store_true", help="stop after the first failure")
    parser.add_argument("--list", action="store_true", help="list the selected cases and stop")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the results here")
    parser.add_argument("--log-dir", type=pathlib.Path, metavar="DIR",
                        help="write the outputs of each case here")
    parser.add_argument("--show", metavar="REGEX", help="print lines of the outputs that match")
    parser.add_argument("--bin-dir", type=pathlib.Path, metavar="DIR",
                        help="take the client programs from here instead of PATH")
    parser.add_argument("--preload", action="append", default=[], metavar="LIB",
                        help="preload this into each client, e.g. a sanitizer's run time; "
                        "findings with a frame of ours fail the case, others are listed")
    parser.add_argument("--patience", type=float, metavar="FACTOR",
                        help="multiply every deadline (default: 1, with --preload 5)")
    options = parser.parse_args(arguments)
    if not options.list and (not options.libdat2 or not options.dat_conf):
        parser.error("--libdat2 and --dat-conf are needed to run anything")
    if options.patience is None:
        options.patience = 5.0 if options.preload else 1.0
    return options


def selected(every: list[runner.Case], expression: str) -> list[runner.Case]:
    """The cases that any of the comma-separated words picks, in table order."""
    words = [word.strip() for word in expression.split(",") if word.strip()]

    def picks(word: str, case: runner.Case) -> bool:
        if word.startswith("@"):
            return word[1:] in case.tags
        return fnmatch.fnmatchcase(case.name, word)

    for word in words:
        if not any(picks(word, case) for case in every):
            raise SystemExit(f"run_clients: no case is called, or tagged, {word}; see --list")
    return [case for case in every if any(picks(word, case) for word in words)]


def missing_programs(chosen: list[runner.Case], bin_dir: pathlib.Path | None) -> list[str]:
    names = {part.argv[0] for case in chosen
             for part in (*case.clients, *([case.server] if case.server else []))}
    return sorted(name for name in names if not runner.program_path(name, bin_dir))


def check_inputs(settings: runner.Settings) -> None:
    for path in (settings.libdat2, settings.dat_conf, *settings.preload):
        if not pathlib.Path(path).is_file():
            raise SystemExit(f"run_clients: there is no file {path}")


def raise_descriptor_limit() -> None:
    """A thousand connections may need a descriptor each; the usual soft limit is 1024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def shown_lines(result: runner.Result, pattern: str | None) -> list[str]:
    if not pattern:
        return []
    return [f"    {name}: {line.strip()}" for name, text in result.outputs.items()
            for line in text.splitlines() if re.search(pattern, line)]


def run_all(chosen: list[runner.Case], settings: runner.Settings,
            options: argparse.Namespace) -> list[tuple[int, runner.Result]]:
    results = []
    total = len(chosen) * options.rounds
    width = max(len(case.name) for case in chosen)
    for round_number in range(1, options.rounds + 1):
        for case in chosen:
            result = runner.run_case(case, settings)
            results.append((round_number, result))
            verdict = "pass" if result.passed else "FAIL"
            tail = f"  round {round_number}" if options.rounds > 1 else ""
            print(f"[{len(results):>{len(str(total))}}/{total}] {case.name:<{width}}  {verdict}"
                  f"  {result.seconds:6.1f} s{tail}", flush=True)
            for line in shown_lines(result, options.show):
                print(line, flush=True)
            for finding in result.foreign_findings:
                print(f"    foreign finding, {finding}", flush=True)
            if not result.passed:
                print(runner.report(result), flush=True)
                if options.fail_fast:
                    return results
    return results


def write_json(path: pathlib.Path, settings: runner.Settings,
               results: list[tuple[int, runner.Result]]) -> None:
    path.write_text(json.dumps({
        "libdat2": str(settings.libdat2),
        "adapter": settings.adapter,
        "passed": sum(result.passed for _, result in results),
        "failed": sum(not result.passed for _, result in results),
        "results": [{
            "name": result.name,
            "round": round_number,
            "passed": result.passed,
            "seconds": round(result.seconds, 3),
            "cause": result.cause,
            "reasons": result.reasons,
            "foreign_findings": result.foreign_findings,
        } for round_number, result in results],
    }, indent=2) + "\n")


def summarise(results: list[tuple[int, runner.Result]]) -> int:
    failures: dict[str, list[str]] = {}
    for round_number, result in results:
        if not result.passed:
            failures.setdefault(result.name, []).append(f"round {round_number}: {result.cause}")
    for name, reasons in failures.items():
        print(f"FAIL {name}, {len(reasons)} times; first: {reasons[0]}")
    failed = sum(not result.passed for _, result in results)
    print(f"{len(results) - failed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    settings = runner.Settings(
        libdat2_dir=(options.libdat2 or pathlib.Path("/nonexistent")).resolve(),
        dat_conf=(options.dat_conf or pathlib.Path("/nonexistent")).resolve(),
        adapter=options.adapter,
        bin_dir=options.bin_dir,
        preload=tuple(options.preload),
        patience=options.patience,
        source_root=pathlib.Path(__file__).resolve().parents[2],
        log_dir=options.log_dir,
        server_user=options.server_user,
    )
    place = cases.Place(options.adapter,
                        two_hosts.SERVER_ADDRESS if options.two_hosts else options.host)
    which, of = options.share
    chosen = selected(cases.all_cases(place, settings.foreign_libdat2), options.select)[which - 1::of]
    if not chosen:
        raise SystemExit(f"run_clients: fewer than {of} cases are selected")
    if options.list:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # its reader may have read enough
        for case in chosen:
            print(f"{case.name:<24} {' '.join(sorted(case.tags)):<22} {case.about}")
        return 0
    missing = missing_programs(chosen, options.bin_dir)
    if missing:
        print(f"skipped: {', '.join(missing)} not found; install the package dapl2-utils")
        return SKIPPED
    check_inputs(settings)
    raise_descriptor_limit()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends by an exception, so that clients
                                                             # are killed too
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        if options.two_hosts:
            try:
                settings.hosts = stack.enter_context(two_hosts.TwoHosts())
            except two_hosts.CannotRun as reason:
                print(f"skipped: two hosts cannot be made: {reason}")
                return SKIPPED
            settings.dat_conf = settings.hosts.dat_conf(settings.dat_conf)
        print(f"{len(chosen)} cases over {settings.adapter} with {settings.libdat2}"
              f"{', on two hosts' if options.two_hosts else ''}", flush=True)
        results = run_all(chosen, settings, options)
    if options.json:
        write_json(options.json, settings, results)
    print(f"took {time.monotonic() - began:.0f} s")
    return summarise(results)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
