#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Counts the cost of DAT 1.2 on the calls of the data path, with callgrind.

Calls are counted through libdat2 alone and through libdat, which goes to the provider directly. The
instructions that libdat executes beyond libdat2's are compared with the limits below; a lock or an
allocation in it is an error.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIP = 77
# Instructions of a post of one segment, of each further segment, and of a dequeued event. In RDMA
# writes of several segments, the peer's segment counts as a further one.
ONE_SEGMENT, FURTHER_SEGMENT, EVENT = 25, 6, 45
LIMITS = {
    'send1': ONE_SEGMENT,
    'send2': ONE_SEGMENT + FURTHER_SEGMENT,
    'send4': ONE_SEGMENT + 3 * FURTHER_SEGMENT,
    'recv1': ONE_SEGMENT,
    'write1': ONE_SEGMENT,
    'write2': ONE_SEGMENT + 2 * FURTHER_SEGMENT,
    'write4': ONE_SEGMENT + 4 * FURTHER_SEGMENT,
    'empty': EVENT,
    'dequeue': EVENT,
}
LIBRARIES = re.compile(r'libdat2?\.so')
FORBIDDEN = re.compile(r'\b(malloc|calloc|realloc|free|(__)?pthread_\w*lock)\b')


def phases_of(probe, adapter, calls, dump_class, folder):
    """Instructions per call in libdat and libdat2, and their calls of forbidden functions."""
    command = ['valgrind', '--tool=callgrind', '--collect-atstart=no', '--quiet',
               f'--callgrind-out-file={folder}/out', probe, adapter, str(calls)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600, check=False)
    if done.returncode != 0:
        sys.exit(f'{probe} failed with {done.returncode}')
    counts, offences = {}, []
    for path in pathlib.Path(folder).iterdir():
        dump = dump_class(path)
        name = (dump.phase or '').removeprefix('Client Request:').strip()
        if name not in LIMITS:
            continue
        counts[name] = sum(cost for (where, _), cost in dump.cost.items()
                           if LIBRARIES.search(where)) / calls
        offences += [f'{name}: {function}' for (where, _), function in calls_of(path)
                     if LIBRARIES.search(where) and FORBIDDEN.search(function)]
    return counts, offences


def calls_of(path):
    """The callers of each function: ((object, function), callee)."""
    names, here, function, callee = {}, '?', '?', '?'

    def name(kind, text):
        match = re.match(r'\((\d+)\)\s*(.*)', text)
        if match and match[2]:
            names[kind, match[1]] = match[2]
        return names.get((kind, match[1]), '?') if match else text

    for line in path.read_text().splitlines():
        key, _, value = line.partition('=')
        if key in ('ob', 'cob'):
            where = name('object', value)
            here = where if key == 'ob' else here
        elif key == 'fn':
            function = name('function', value)
        elif key == 'cfn':
            callee = name('function', value)
        elif key == 'calls':
            yield (here, function), callee


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('adapter', help='adapter name in dat.conf')
    parser.add_argument('--one', required=True, help='the probe, built for DAT 1.2')
    parser.add_argument('--two', required=True, help='the probe, built for DAT 2.0')
    parser.add_argument('--bench', required=True, help='folder of instructions.py')
    parser.add_argument('--calls', type=int, default=50)
    options = parser.parse_args()
    if shutil.which('valgrind') is None:
        print('skipped: valgrind is not installed')
        return SKIP
    sys.path.insert(0, options.bench)
    import instructions  # pylint: disable=import-outside-toplevel

    results = []
    for probe in (options.one, options.two):
        with tempfile.TemporaryDirectory() as folder:
            results.append(phases_of(probe, options.adapter, options.calls, instructions.Dump,
                                     folder))
    (one, offences), (two, _) = results
    missing = sorted(set(LIMITS) - (set(one) & set(two)))
    wrong = [f'{name}: not counted' for name in missing] + offences
    print(f'{options.adapter}: instructions per call\n{"":10}{"libdat":>8}{"libdat2":>9}{"added":>7}'
          f'{"limit":>7}')
    for name, limit in LIMITS.items():
        if name in missing:
            continue
        added = one[name] - two[name]
        print(f'{name:10}{one[name]:8.1f}{two[name]:9.1f}{added:7.1f}{limit:7}')
        if added > limit:
            wrong.append(f'{name}: {added:.1f} instructions are added, the limit is {limit}')
    print(*wrong, sep='\n')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
