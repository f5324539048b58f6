#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Counts the instructions of single DAT calls, by shared object, with callgrind.

Runs instructions-probe under valgrind and prints, for each call of the data path, how many
instructions it executes in libdat2, in the provider (common layer and port), in the transport's own
library and in libc; and how many instructions of libdat2 and the provider are atomic, and how many
words they store, which is the cost of copying. --engine prints the same for the software HCA, which
is inside its provider's library, function by function. On a quiet machine the counts repeat exactly, so
limits on them can be asserted:

    instructions ofi-lo --limit post=60 --limit dequeue=60
"""
import argparse
import collections
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CALLS = ('post_rdma_write', 'post_send', 'post_recv', 'dequeue', 'dequeue_empty', 'wait_ready',
         'wait_many', 'stream')
# A limit named "post" holds for all three.
LIMIT_GROUPS = {'post': ('post_rdma_write', 'post_send', 'post_recv'),
                'wait': ('wait_ready',), 'empty': ('dequeue_empty',)}
COLUMNS = ('libdat2', 'provider', 'transport', 'libc')
OURS = ('locks', 'atomics', 'stores')  # counts of libdat2 and the provider
PROBE = 'instructions-probe'
ATTEMPTS = 5
LOCKS = re.compile(r'^(__)?pthread_(mutex_(try|timed)?|spin_|rwlock_(rd|wr))lock\b')


# Its functions that add completions.
COMPLETIONS = re.compile(r'soft_hca::completion_(ring|turn|target)::')


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


# An atomic instruction: a locked instruction or an exchange with memory; on ARM, an exclusive pair
# or an instruction of LSE. objdump's lines: "  4a5f:\tlock cmpxchg %ecx,(%rdi)".
ATOMIC = re.compile(r'\s*([0-9a-f]+):\t'
                    r'(?:lock |xchg .*\(|(?:stl?xr|cas|swp|ld(?:add|clr|eor|set))\w*\s)')


def atomics_of(shared_object):
    """The addresses of a library's atomic instructions; None where objdump is missing."""
    if not shutil.which('objdump'):
        return None
    lines = subprocess.run(['objdump', '-d', '--no-show-raw-insn', shared_object], check=True,
                           stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return {int(match[1], 16) for match in map(ATOMIC.match, lines) if match}


class Dump:
    """One part of callgrind's output: what each function executed itself, and whom it called."""

    def __init__(self, path):
        self.phase = None
        self.cost = collections.Counter()
        self.stores = collections.Counter()
        self.at = collections.Counter()  # executed instructions by object, function and address
        self.locks = collections.Counter()
        self._names = {}
        self._address = 0
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
        here, function, callee = '?', '?', ''
        before = None  # the line "calls", or the cost of the call that it told
        once = 0  # how often the last instruction was executed
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
                # `calls=` also counts calls made while collection was off; the cost of the call
                # instruction, noted in `once`, covers only those made while it was on.
                if LOCKS.match(callee):
                    self.locks[here, function] += once
                before = 'calls'
            elif re.match(r'[-+*\d]', line):
                place, *counts = line.split()
                self._move_to(place)
                if before == 'calls':  # what the callee cost, which is counted at the callee
                    before = 'cost'
                    continue
                executed = int(counts[0])
                if before == 'cost' and place == '*':  # the jump to it by the PLT, of all calls
                    executed = min(executed, once)
                before, once = None, executed
                self.cost[here, function] += executed
                self.at[here, function, self._address] += executed
                self.stores[here, function] += int(counts[2]) if len(counts) > 2 else 0

    def _move_to(self, place):
        """Moves to an address: hexadecimal, or a decimal step from the one before."""
        if place[0] in '+-':
            self._address += int(place)
        elif place != '*':
            self._address = int(place, 16)


def run_probe(probe, adapter, options, count, directory):
    valgrind = shutil.which('valgrind')
    if not valgrind:
        raise Failure('valgrind is not installed: apt-get install valgrind')
    command = [valgrind, '--tool=callgrind', '--collect-atstart=no', '--quiet',
               '--dump-instr=yes', '--dump-line=no', '--cache-sim=yes',  # Ir Dr Dw ...
               f'--callgrind-out-file={directory}/out', probe, adapter, '--count', str(count)]
    command += options
    if sys.stderr.isatty():
        print('counting, this takes some seconds ...', file=sys.stderr)
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=600, check=False)
    except subprocess.TimeoutExpired as late:
        raise Failure('the probe did not end in ten minutes') from late
    said = re.sub(r'(?m)^--\d+-- .*\n', '', done.stderr)  # valgrind's, of caches and signals
    print(said, end='', file=sys.stderr)
    if done.returncode != 0:
        raise Failure(f'the probe failed with {done.returncode}, see above')
    phases = {}
    for line in done.stdout.splitlines():
        name, calls, odd = line.split()
        phases[name] = int(calls), int(odd)
    return phases


def is_ours(place):
    return column_of(*place) in ('libdat2', 'provider')


def engine_rows(dump, calls, atomics):
    """For each function of the software HCA, its instructions and atomic instructions per call."""
    rows = {}
    for (shared_object, function), cost in dump.cost.items():
        if column_of(shared_object, function) != 'transport' or not ENGINE.match(function):
            continue
        row = rows.setdefault(function.partition('(')[0], [0.0, 0.0])
        known = atomics(shared_object) or ()
        row[0] += cost / calls
        row[1] += sum(n for (*place, address), n in dump.at.items()
                      if place == [shared_object, function] and address in known) / calls
    return rows


def summarize(dump, calls, odd, atomics):
    """`atomics` tells the addresses of the atomic instructions of an object."""
    row = {column: 0.0 for column in COLUMNS}
    for place, cost in dump.cost.items():
        column = column_of(*place)
        if column:
            row[column] += cost / calls
    ours = {'locks': sum(n for place, n in dump.locks.items() if is_ours(place)),
            'stores': sum(n for place, n in dump.stores.items() if is_ours(place))}
    known = {place: atomics(place[0]) for place in dump.cost if is_ours(place)}
    if None not in known.values():
        ours['atomics'] = sum(n for (*place, address), n in dump.at.items()
                              if address in known.get(tuple(place), ()))
    return row | {name: n / calls for name, n in ours.items()} | {'odd_outcomes': odd}


def measure(probe, adapter, options, count):
    with tempfile.TemporaryDirectory() as directory:
        phases = run_probe(probe, adapter, options, count, directory)
        rows = {}
        atomics = functools.cache(atomics_of)
        for path in pathlib.Path(directory).iterdir():
            dump = Dump(path)
            name = (dump.phase or '').removeprefix('Client Request:').strip()
            if name in phases:
                rows[name] = summarize(dump, *phases[name], atomics)
                rows[name]['engine'] = engine_rows(dump, phases[name][0], atomics)
    missing = [call for call in CALLS if call not in rows]
    if missing:
        raise Failure('callgrind wrote no counts for ' + ', '.join(missing))
    return {call: rows[call] for call in CALLS}


def print_table(adapter, rows):
    print(f'{adapter}: instructions per call')
    print(f'{"call":18}' + ''.join(f'{column:>11}' for column in COLUMNS)
          + ''.join(f'{column:>9}' for column in OURS))
    for call, row in rows.items():
        print(f'{call:18}' + ''.join(f'{row[column]:11.1f}' for column in COLUMNS)
              + ''.join(f'{row[column]:9.1f}' if column in row else f'{"?":>9}' for column in OURS))
    if any('atomics' not in row for row in rows.values()):
        print('atomics are not counted: objdump is missing (apt-get install binutils)')
    for call, row in rows.items():
        if row['odd_outcomes']:
            print(f'{call}: {row["odd_outcomes"]} of these calls found no event, or one too many: '
                  'the numbers are mixed')


def print_engine(rows):
    for call, row in rows.items():
        engine = sorted(row['engine'].items(), key=lambda each: -each[1][0])
        if not engine:
            continue
        total = [sum(each[i] for _, each in engine) for i in range(2)]
        print(f'\n{call}: the software HCA\n{"function":58}{"instructions":>13}{"atomics":>9}')
        for function, counts in [('all', total), *engine]:
            if counts[0] >= 1:
                print(f'{function:58}{counts[0]:13.1f}{counts[1]:9.2f}')


def parse_limit(text):
    name, _, value = text.partition('=')
    if name not in CALLS and name not in LIMIT_GROUPS:
        raise argparse.ArgumentTypeError(
            f'there is no call {name!r}; there are {", ".join((*LIMIT_GROUPS, *CALLS))}')
    try:
        return name, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f'{text!r} is not NAME=NUMBER') from None


def exceeded(rows, limits, column):
    """The broken limits on the instructions of a column, in words."""
    return [f'{call}: {rows[call][column]:.1f} in the {column}, the limit is {limit:g}'
            for name, limit in limits
            for call in LIMIT_GROUPS.get(name, (name,)) if rows[call][column] > limit]


def completing(rows, limits):
    """The broken limits on atomic instructions per completion of the software HCA, in words. Each
    message of a stream makes two; what the compiler makes of the rings' functions stays theirs."""
    counted = ((call, limit, sum(atomics for function, (_, atomics) in rows[call]['engine'].items()
                                 if COMPLETIONS.search(function)) / 2) for call, limit in limits)
    return [f'{call}: {atomics:.2f} atomics for each completion, the limit is {limit:g}'
            for call, limit, atomics in counted if atomics > limit]


def executing_more(rows, limits):
    """The calls that executed more atomic instructions than they may, in words."""
    return [f'{call}: {rows[call]["atomics"]:.2f} atomics, the limit is {limit:g}'
            for name, limit in limits
            for call in LIMIT_GROUPS.get(name, (name,)) if rows[call]['atomics'] > limit]


def executing(rows, what, names):
    """The calls of these names that took a lock, or executed an atomic instruction, in words."""
    return [f'{call}: {rows[call][what]:.1f} {what}' for name in names
            for call in LIMIT_GROUPS.get(name, (name,)) if rows[call][what]]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('adapter', nargs='?', default='ofi-lo', help='adapter name in dat.conf')
    parser.add_argument('--threadsafe', action='store_true', help='open its threadsafe line')
    parser.add_argument('--merged', action='store_true',
                        help='the EVD of requests takes connection events, too')
    parser.add_argument('--pairs', type=int, default=1, help='connections that take turns in the '
                        'stream, and share two EVDs')
    parser.add_argument('--count', type=int, default=100, help='calls per phase')
    parser.add_argument('--limit', type=parse_limit, action='append', default=[],
                        metavar='CALL=N', help='fail when the provider executes more; post, '
                        'wait and empty stand for groups of calls')
    parser.add_argument('--transport-limit', type=parse_limit, action='append', default=[],
                        metavar='CALL=N', help='fail when the transport below it executes more')
    parser.add_argument('--completion-limit', type=parse_limit, action='append', default=[],
                        metavar='stream=N', help='fail when the software HCA executes more atomic '
                        'instructions for a completion')
    parser.add_argument('--no-locks', action='append', default=[], metavar='CALL',
                        choices=(*LIMIT_GROUPS, *CALLS), help='fail when it takes a lock')
    parser.add_argument('--no-atomics', action='append', default=[], metavar='CALL',
                        choices=(*LIMIT_GROUPS, *CALLS),
                        help='fail when the provider executes an atomic instruction')
    parser.add_argument('--atomic-limit', type=parse_limit, action='append', default=[],
                        metavar='CALL=N', help='fail when the provider executes more atomic '
                        'instructions; an empty dequeue that yields executes some')
    parser.add_argument('--engine', action='store_true',
                        help='show the functions of the software HCA')
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
    """The counts, and the broken limits. A call that breaks a limit is counted again: on a busy
    machine events come too early or too late, and a few calls take another way."""
    options = ['--threadsafe'] * arguments.threadsafe + ['--merged'] * arguments.merged
    options += ['--pairs', str(arguments.pairs)]
    for _ in range(ATTEMPTS):
        rows = measure(probe, arguments.adapter, options, arguments.count)
        broken = (exceeded(rows, arguments.limit, 'provider') +
                  exceeded(rows, arguments.transport_limit, 'transport') +
                  completing(rows, arguments.completion_limit) + executing(rows, 'locks', arguments.no_locks) +
                  executing(rows, 'atomics', arguments.no_atomics) +
                  executing_more(rows, arguments.atomic_limit))
        if not broken:
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
    if arguments.engine:
        print_engine(rows)
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
