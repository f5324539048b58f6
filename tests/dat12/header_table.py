#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Compares the DAT 1.2 headers with a table of everything in them.

The table has one line for each macro, type, member, enumeration constant and
function: its name, a tab, and its value, layout or signature as the compiler
sees it (tests/abi/abi_values.py says how). A line more or less is a failure,
too: headers that programs were compiled with do not change.

Exit status: 0 no difference, 1 differences, 77 a tool is missing.
"""

import argparse
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / 'abi'))
import abi_values  # noqa: E402

ENTRY = '#include <dat/udat.h>\n#include <dat/dat_registry.h>\n'


def facts_of(compiler, include):
    """All that is said by the headers, without what the system's headers say."""
    abi_values.FOLDER = 'dat'
    everything = abi_values.snapshot(compiler, include, {'all': ENTRY})['all']
    kept = {}
    for name, fact in everything.items():
        kind, _, rest = name.partition(' ')
        path = rest.split('.')[0]
        if kind in ('macro', 'function', 'constant', 'typedef', 'enum', 'struct', 'union') and (
                is_ours(path) or kind in ('macro', 'function')):
            kept[name] = fact
    return kept


REASONS = ('ia_async_error_reason', 'ep_async_error_reason', 'ep_evd_error_reason',
           'ep_srq_error_reason', 'lmr_async_error_reason', 'rmr_async_error_reason',
           'pz_async_error_reason')


def is_ours(name):
    return name.lower().startswith('dat_') or name in REASONS


def read_table(path):
    lines = (line for line in path.read_text().splitlines() if line and not line.startswith('#'))
    return dict(line.split('\t', 1) for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--include', default=HERE.parents[1] / 'include',
                        help='directory that holds dat/')
    parser.add_argument('--table', type=Path, default=HERE / 'headers.table')
    parser.add_argument('--cc', default='gcc', help='a GNU C compiler')
    parser.add_argument('--print', action='store_true',
                        help='print the table of these headers, and compare nothing')
    options = parser.parse_args()
    for tool in (options.cc, 'readelf'):
        if shutil.which(tool) is None:
            print(f'skipped: {tool} is not installed')
            return abi_values.SKIP
    found = facts_of(options.cc, options.include)
    if options.print:
        print('\n'.join(f'{name}\t{fact}' for name, fact in sorted(found.items())))
        return 0
    differences, compared = abi_values.compare({'dat/': found},
                                               {'dat/': read_table(options.table)}, {}, {})
    print('\n'.join(differences))
    print(f'{compared} facts compared, {len(differences)} differences')
    return 1 if differences or not compared else 0


if __name__ == '__main__':
    sys.exit(main())
