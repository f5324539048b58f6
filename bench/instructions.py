#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Counts the instructions of single DAT calls, by shared object, with callgrind.

Runs instructions-probe under valgrind and prints, for each call of the data path, how many
instructions it executes in libdat2, in the provider (common layer and port), in the transport's own
library and in libc. The counts repeat exactly, so limits on them can be asserted:

    instructions ofi-lo --limit post=60 --limit dequeue=60
"""
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CALLS = ('post_rdma_write', 'post_send', 'post_recv', 'dequeue', 'dequeue_empty', 'wait_ready')
# A limit named "post" holds for all three.
LIMIT_GROUPS = {'post': ('post_rdma_write', 'post_send', 'post_recv'),
                'wait': ('wait_ready',), 'empty': ('dequeue_empty',)}
COLUMNS = ('libdat2', 'provider', 'transport', 'libc')
PROBE = 'instructions-probe'
ATTEMPTS = 5
LOCKS = re.compile(r'^(__)?pthread_(mutex_(try|timed)?|spin_|rwlock_(rd|wr))lock\b')


class Failure(Exception):
    """Something the user has to know; the text says what to do."""


# The software HCA is a device inside the library of its port.
ENGINE = re.compile(r'([^(<]* )?soft_hca::')


def column_of(shared_object, function):
    """The column in which a function's instructions are counted; None for the probe itself."""
    name = os.path.basename(shared_object)
    if name == PROBE:
        return None
    if name.startswith('libdat2.'):
        return 'libdat2'
    if name.startswith('libdapl') and ENGINE.match(function):
        return 'transport'
    if name.startswith(('libdapl', 'libstdc++', 'libgcc')):  # a provider's helpers are its cost
        return 'provider'
    if name.startswith(('libc.', 'libc-', 'ld-linux', 'ld-', 'libpthread', 'libm.')):
        return 'libc'
    return 'transport'


class Dump:
    """One part of callgrind's output: what each function executed itself, and whom it called."""

    def __init__(self, path):
        self.phase = None
        self.cost = collections.Counter()
        self.locks = collections.Counter()
        self._names = {}
        self._read(path)

    def _name(self, kind, text):
        """Resolves callgrind's "(number) name" shorthand: the name comes only the first time."""
        match = re.match(r'\((\d+)\)\s*(.*)', text)
        if not match:
            return text
        if match[2]:
            self._names[kind, match[1]] = match[2]
        return self._names.get((kind, match[1]), '?')

    def _read(self, path):
        here, function, callee, called = '?', '?', '', False
        for line in path.read_text().splitlines():
            key, _, value = line.partition('=')
            if line.startswith('desc: Trigger:'):
                self.phase = line.rpartition(':')[2].strip()
            elif key == 'ob':
                here = self._name('object', value)
            elif key == 'cob':
                self._name('object', value)
            elif key == 'fn':
                function = self._name('function', value)
            elif key == 'cfn':
                callee = self._name('function', value)
            elif key == 'calls':
                called = True
                if LOCKS.match(callee):
                    self.locks[here, function] += int(value.split()[0])
            elif re.match(r'[-+*\d]', line):
                if not called:  # the line after "calls" is the callee's cost, counted at the callee
                    self.cost[here, function] += int(line.split()[-1])
                called = False


def run_probe(probe, adapter, count, directory):
    valgrind = shutil.which('valgrind')
    if not valgrind:
        raise Failure('valgrind is not installed: apt-get install valgrind')
    command = [valgrind, '--tool=callgrind', '--collect-atstart=no', '--quiet',
               f'--callgrind-out-file={directory}/out', probe, adapter, '--count', str(count)]
    if sys.stderr.isatty():
        print('counting, this takes some seconds ...', file=sys.stderr)
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired as late:
        raise Failure('the probe did not end in ten minutes') from late
    if done.returncode != 0:
        raise Failure(f'the probe failed with {done.returncode}, see above')
    phases = {}
    for line in done.stdout.splitlines():
        name, calls, odd = line.split()
        phases[name] = int(calls), int(odd)
    return phases


def summarize(dump, calls, odd):
    row = {column: 0.0 for column in COLUMNS}
    locks = 0.0
    for place, cost in dump.cost.items():
        column = column_of(*place)
        if column:
            row[column] += cost / calls
    for place, count in dump.locks.items():
        if column_of(*place) in ('libdat2', 'provider'):
            locks += count / calls
    return row | {'locks': locks, 'odd_outcomes': odd}


def measure(probe, adapter, count):
    with tempfile.TemporaryDirectory() as directory:
        phases = run_probe(probe, adapter, count, directory)
        rows = {}
        for path in pathlib.Path(directory).iterdir():
            dump = Dump(path)
            name = (dump.phase or '').removeprefix('Client Request:').strip()
            if name in phases:
                rows[name] = summarize(dump, *phases[name])
    missing = [call for call in CALLS if call not in rows]
    if missing:
        raise Failure('callgrind wrote no counts for ' + ', '.join(missing))
    return {call: rows[call] for call in CALLS}


def print_table(adapter, rows):
    print(f'{adapter}: instructions per call')
    print(f'{"call":18}' + ''.join(f'{column:>11}' for column in COLUMNS) + f'{"locks":>8}')
    for call, row in rows.items():
        print(f'{call:18}' + ''.join(f'{row[column]:11.1f}' for column in COLUMNS)
              + f'{row["locks"]:8.1f}')
        if row['odd_outcomes']:
            print(f'    {row["odd_outcomes"]} of these calls found no event, or one too many: the '
                  'numbers are mixed')


def parse_limit(text):
    name, _, value = text.partition('=')
    if name not in CALLS and name not in LIMIT_GROUPS:
        raise argparse.ArgumentTypeError(
            f'there is no call {name!r}; there are {", ".join((*LIMIT_GROUPS, *CALLS))}')
    try:
        return name, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f'{text!r} is not NAME=NUMBER') from None


def exceeded(rows, limits):
    """The broken limits, in words. A limit is on the provider's instructions."""
    broken = []
    for name, limit in limits:
        for call in LIMIT_GROUPS.get(name, (name,)):
            if rows[call]['provider'] > limit:
                broken.append(f'{call}: {rows[call]["provider"]:.1f} in the provider, the limit '
                              f'is {limit:g}')
    return broken


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('adapter', nargs='?', default='ofi-lo', help='adapter name in dat.conf')
    parser.add_argument('--count', type=int, default=100, help='calls per phase')
    parser.add_argument('--limit', type=parse_limit, action='append', default=[],
                        metavar='CALL=N', help='fail when the provider executes more; post, '
                        'wait and empty stand for groups of calls')
    parser.add_argument('--json', metavar='FILE', help='write the results there (- is stdout)')
    parser.add_argument('--probe', help=f'the {PROBE} program, if not in the same folder')
    return parser.parse_args()


def find_probe(given):
    beside = pathlib.Path(__file__).resolve().parent / PROBE
    probe = given or (str(beside) if beside.exists() else shutil.which(PROBE))
    if not probe:
        raise Failure(f'{PROBE} is not built, or not on PATH: meson devenv -C build instructions')
    return probe


def judge(probe, arguments):
    """What was counted, and the broken limits. Where calls came too early it is counted again: a busy
    machine mixes what is to be told apart."""
    for _ in range(ATTEMPTS):
        rows = measure(probe, arguments.adapter, arguments.count)
        broken = exceeded(rows, arguments.limit)
        if not broken or not any(row['odd_outcomes'] for row in rows.values()):
            break
    return rows, broken


def main():
    arguments = parse_arguments()
    try:
        rows, broken = judge(find_probe(arguments.probe), arguments)
    except Failure as failure:
        print(f'instructions: {failure}', file=sys.stderr)
        return 1
    print_table(arguments.adapter, rows)
    if arguments.json:
        text = json.dumps({'adapter': arguments.adapter, 'calls': rows}, indent=2) + '\n'
        if arguments.json == '-':
            print(text, end='')
        else:
            pathlib.Path(arguments.json).write_text(text)
    for line in broken:
        print(line)
    return 1 if broken else 0


if __name__ == '__main__':
    sys.exit(main())
