#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Checks that our libdat2 can stand in for an installed reference library.

Its SONAME is libdat2.so.2, its symbols are under the one version node DAT_2.0,
and it has every function that the reference has. More functions are allowed.

Exit status: 0 it can, 1 it cannot, 77 the reference or readelf is missing.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SKIP = 77
SONAME = 'libdat2.so.2'
NODE = 'DAT_2.0'
USUAL_PLACES = ['/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu', '/usr/lib64', '/usr/lib']


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True,
                          env={**os.environ, 'LC_ALL': 'C'}).stdout


def soname(library):
    m = re.search(r'\(SONAME\)\s+Library soname: \[(.*)\]', output('readelf', '-d', '-W', library))
    return m and m[1]


def exported(library):
    """Defined global functions and objects: {name: version or None}."""
    symbols = {}
    for line in output('readelf', '--dyn-syms', '-W', library).splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].rstrip(':').isdigit():
            continue
        kind, binding, section, name = fields[3], fields[4], fields[6], fields[7]
        if kind in ('FUNC', 'OBJECT', 'IFUNC') and binding in ('GLOBAL', 'WEAK') \
                and section not in ('UND', 'ABS'):
            name, _, version = name.partition('@@')
            symbols[name] = version or None
    return symbols


def installed_reference():
    ldconfig = shutil.which('ldconfig') or shutil.which('ldconfig', path='/sbin:/usr/sbin')
    if ldconfig:
        for line in output(ldconfig, '-p').splitlines():
            name, _, path = line.partition(' => ')
            if name.split() and name.split()[0] == SONAME:
                return path.strip()
    places = [Path(p) / SONAME for p in USUAL_PLACES]
    return next((str(p) for p in places if p.exists()), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('ours', help='our libdat2.so')
    parser.add_argument('--reference', help='the library to compare with; default: the installed')
    options = parser.parse_args()

    if shutil.which('readelf') is None:
        print('skipped: readelf is not installed')
        return SKIP

    problems, ours = [], exported(options.ours)
    if soname(options.ours) != SONAME:
        problems.append(f'SONAME\n    ours:      {soname(options.ours)}\n    wanted:    {SONAME}')
    for name, version in sorted(ours.items()):
        if version != NODE:
            problems.append(f'symbol {name}\n    ours:      version {version}\n'
                            f'    wanted:    version {NODE}')

    reference = options.reference or installed_reference()
    if reference and Path(reference).is_file():
        theirs = exported(reference)
        if not theirs:
            problems.append(f'{reference} exports nothing')
        for name, version in sorted(theirs.items()):
            if ours.get(name) != version and version == NODE:
                problems.append(f'symbol {name}\n    ours:      {ours.get(name, "(missing)")}\n'
                                f'    reference: {version}')
    print('\n'.join(problems))
    if problems:
        return 1
    if not (reference and Path(reference).is_file()):
        print(f'SONAME and version are right; skipped the rest: no reference {SONAME} '
              '(Debian: apt install libdapl2)')
        return SKIP
    print(f'{len(theirs)} symbols of {reference} found, {len(ours) - len(theirs)} more')
    return 0


if __name__ == '__main__':
    sys.exit(main())
