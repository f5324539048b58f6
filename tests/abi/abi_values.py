#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Compares our public DAT headers with an installed reference set.

Taken from both sets, with the compiler's own eyes, and compared exactly:
  macros      every name; the value and type of those that are expressions,
              the tokens of all others after full expansion
  types       size of every structure and union, offset, size and type of every
              member, target of every typedef, value of every enum constant
  functions   return and parameter types, by name of type

What is ours alone, or deliberately different, is listed below with its reason;
anything else is a failure, and so is an entry below that is no longer needed.

Exit status: 0 the same, 1 differences, 77 the reference or a tool is missing.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIP = 77

# The folder with the headers of the generation in question.
FOLDER = 'dat2'

# What a source can include, and what the reference needs before that.
ENTRIES = {
    'udat.h': '#include <dat2/udat.h>\n',
    'dat_registry.h': '#include <dat2/udat.h>\n#include <dat2/dat_registry.h>\n',
    'udat_redirection.h': '#include <dat2/udat.h>\n#include <dat2/udat_redirection.h>\n',
    'dat_ib_extensions.h': '#include <netinet/in.h>\n#include <dat2/udat.h>\n'
                           '#include <dat2/dat_ib_extensions.h>\n',
}

ADDED = {
    'function dats_get_ia_handle': 'exported by the reference library, declared by no header of it',
    'function dat_provider_init': 'the entry points of a provider, so that its compiler checks them',
    'function dat_provider_fini': 'likewise',
    'macro DAT_IB_CONTEXT_ARG_': 'lets strict compilers accept the contexts of dat_ib_* macros',
}

CORRECTED = {
    'macro DAT_IA_HA_RELATED': 'a stray space makes it no function-like macro, and it names no slot',
    'macro dat_ib_open_query': 'casts to a const type, of which compilers warn',
    'macro dat_ib_query_counters': 'an argument lacks its parentheses',
    'macro dat_ib_print_counters': 'an argument lacks its parentheses',
    'macro dat_ib_start_counter': 'casts to a type that does not exist',
    'macro dat_ib_stop_counter': 'casts to a type that does not exist',
    'macro dat_ib_collective_set_clock': 'asks to read the clock, and misspells an argument',
    'macro dat_ib_collective_read_clock': 'has a parenthesis too many',
    'macro dat_ib_collective_gatherv': 'does not use the argument it takes',
    'macro dat_ib_collective_alltoallv': 'does not use the argument it takes',
}

CFLAGS = ['-std=gnu11', '-w']


def run(command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True,
                          env={**os.environ, 'LC_ALL': 'C'})


def checked(command, text=None):
    result = run(command, text)
    if result.returncode != 0:
        raise SystemExit(f'failed: {" ".join(command)}\n{result.stderr}')
    return result.stdout


# ---- Macros -------------------------------------------------------------------

TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\.?\d[\w.]*|\w+|->|\.\.\.|##|\S')


def tokens(text):
    return ' '.join(t for t in TOKEN.findall(text) if t != '__extension__')


def defined_macros(cc, source):
    """All macros after the source: {name: (parameters or None, body)}."""
    found = {}
    for line in checked(cc + ['-E', '-dM', '-x', 'c', '-'], source).splitlines():
        m = re.match(r'#define (\w+)(\(([^)]*)\))?\s?(.*)', line)
        parameters = None
        if m[2] is not None:
            parameters = [p.strip() for p in m[3].split(',')] if m[3].strip() else []
        found[m[1]] = (parameters, m[4])
    return found


def own_macros(cc, source):
    """Names of the macros that a header in FOLDER defines."""
    own, here = set(), False
    for line in checked(cc + ['-E', '-dD', '-x', 'c', '-'], source).splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            here = f'/{FOLDER}/' in marker[1]
        elif here:
            define = re.match(r'#define (\w+)', line)
            if define:
                own.add(define[1])
    return own


def expansions(cc, source, macros):
    """The tokens each macro becomes: {name: text}."""
    lines = [source]
    for name, (parameters, _) in macros.items():
        call = name
        if parameters is not None:
            call += '(' + ', '.join(f'arg_{i}' for i in range(len(parameters))) + ')'
        lines.append(f'"@@{name}@@" {call}\n')
    output = checked(cc + ['-E', '-P', '-x', 'c', '-'], ''.join(lines))
    parts = re.split(r'"@@(\w+)@@"', output)
    return {name: tokens(text) for name, text in zip(parts[1::2], parts[2::2])}


EVALUATOR = r'''
#include <stdio.h>
#define ABI_TYPE(x) _Generic((x), int: "int", unsigned int: "unsigned int", long: "long", \
    unsigned long: "unsigned long", long long: "long long", \
    unsigned long long: "unsigned long long", char *: "string", void *: "void *")
#define ABI_TEXT(x) _Generic((x), char *: (x), default: "")
#define ABI_NUMBER(x) ((unsigned long long)_Generic((x), char *: 0, default: (x)))
'''


def evaluated(cc, source, names, work):
    """Value and type of each macro that is an expression: {name: text}."""
    names = sorted(names)
    program, executable = work / 'values.c', work / 'values'
    while True:
        head = source + EVALUATOR
        first = head.count('\n') + 1
        body = ''.join(f'void value_{n}(void) {{ printf("{n}\\t%s\\t%#llx\\t%s\\n", '
                       f'ABI_TYPE({n}), ABI_NUMBER({n}), (char *)ABI_TEXT({n})); }}\n'
                       for n in names)
        calls = ''.join(f'    value_{n}();\n' for n in names)
        program.write_text(f'{head}{body}int main(void)\n{{\n{calls}    return 0;\n}}\n')
        result = run(cc + ['-fmax-errors=0', '-ftrack-macro-expansion=0', '-o', str(executable),
                           str(program)])
        if result.returncode == 0:
            break
        bad = {int(m[1]) - first for m in re.finditer(r'values\.c:(\d+):\d+: error', result.stderr)}
        bad = {names[i] for i in bad if 0 <= i < len(names)}
        if not bad:
            raise SystemExit(f'cannot evaluate macros:\n{result.stderr}')
        names = [n for n in names if n not in bad]
    values = {}
    for line in checked([str(executable)]).splitlines():
        name, kind, number, text = line.split('\t', 3)
        values[name] = f'{kind} "{text}"' if kind == 'string' else f'{kind} {number}'
    return values


def macro_facts(cc, source, work):
    everything, own = defined_macros(cc, source), own_macros(cc, source)
    ours = {n: d for n, d in everything.items() if n in own}
    expanded = expansions(cc, source, ours)
    values = evaluated(cc, source, [n for n, (p, _) in ours.items() if p is None and expanded[n]],
                       work)
    facts = {}
    for name, (parameters, body) in everything.items():
        if name not in ours:
            facts[f'system macro {name}'] = body
        elif name in values:
            facts[f'macro {name}'] = values[name]
        else:
            arity = '' if parameters is None else f'[{len(parameters)} parameters] '
            facts[f'macro {name}'] = (arity + expanded[name]).strip()
    return facts


# ---- Types and functions ------------------------------------------------------------


def function_names(cc, source, work):
    """Functions that a header in FOLDER declares or defines."""
    listing = work / 'functions'
    unit = work / 'functions.c'
    unit.write_text(source)
    checked(cc + ['-fsyntax-only', '-aux-info', str(listing), str(unit)])
    names = set()
    for line in listing.read_text().splitlines():
        m = re.match(r'/\* (.*?):\d+:\w+ \*/ (.*)', line)
        if m and f'/{FOLDER}/' in m[1]:
            names.add(re.search(r'(\w+) \(', m[2])[1])
    return sorted(names)


class Dwarf:
    """The debugging information of one object, as readelf prints it.

    Versions of readelf differ in whether they name the form: `<0x29>` or
    `(ref4) <0x29>, int`; `(indirect string, offset: 0x1): int` or
    `(strp) (offset: 0x1): int`.
    """

    ENTRY = re.compile(r'\s*<([0-9a-f]+)><([0-9a-f]+)>: Abbrev Number: \d+ \((DW_TAG_\w+)\)')
    END = re.compile(r'\s*<[0-9a-f]+><[0-9a-f]+>: Abbrev Number: 0')
    ATTRIBUTE = re.compile(r'\s*<[0-9a-f]+>\s+(DW_AT_\w+)\s*: (.*)')
    FORM = re.compile(r'^(\(\w+\) )?(\((indirect string, )?offset: 0x[0-9a-f]+\): )?')
    REFERENCE = re.compile(r'<(?:0x)?([0-9a-f]+)>')

    def __init__(self, text):
        self.entries, stack, entry = {}, [], None
        for line in text.splitlines():
            m = self.ENTRY.match(line)
            if m:
                level = int(m[1], 16)
                entry = {'tag': m[3][7:], 'children': [], 'at': int(m[2], 16)}
                self.entries[entry['at']] = entry
                del stack[level:]
                if stack:
                    stack[-1]['children'].append(entry)
                stack.append(entry)
            elif self.END.match(line):
                entry = None
            elif entry is not None:
                a = self.ATTRIBUTE.match(line)
                if a:
                    entry[a[1][6:]] = self.FORM.sub('', a[2].strip())

    @staticmethod
    def name(entry):
        return entry.get('name')

    @staticmethod
    def number(entry, attribute):
        return int(entry.get(attribute, '0').split()[0], 0)

    def target(self, entry):
        reference = entry.get('type')
        return self.entries[int(self.REFERENCE.search(reference)[1], 16)] if reference else None

    def size(self, entry):
        if entry is None:
            return 0
        if 'byte_size' in entry:
            return self.number(entry, 'byte_size')
        if entry['tag'] == 'array_type':
            count = 1
            for extent in self.extents(entry):
                count *= extent or 0
            return count * self.size(self.target(entry))
        return self.size(self.target(entry))

    def extents(self, array):
        for child in array['children']:
            if child['tag'] == 'subrange_type':
                known = 'upper_bound' in child
                yield self.number(child, 'upper_bound') + 1 if known else None

    def describe(self, entry):
        """A type as text; named types by their name."""
        if entry is None:
            return 'void'
        tag, name = entry['tag'], self.name(entry)
        aggregate = {'structure_type': 'struct', 'union_type': 'union', 'enumeration_type': 'enum'}
        if tag in aggregate:
            return f'{aggregate[tag]} {name or "(unnamed)"}'
        if tag in ('typedef', 'base_type', 'unspecified_type'):
            return name
        inner = self.target(entry)
        if tag == 'pointer_type':
            return f'pointer to ({self.describe(inner)})'
        if tag in ('const_type', 'volatile_type', 'restrict_type'):
            return f'{tag[:-5]} {self.describe(inner)}'
        if tag == 'array_type':
            shape = ''.join(f'[{"" if n is None else n}]' for n in self.extents(entry))
            return f'{self.describe(inner)}{shape}'
        if tag == 'subroutine_type':
            parameters = [self.describe(self.target(c)) for c in entry['children']
                          if c['tag'] == 'formal_parameter']
            if any(c['tag'] == 'unspecified_parameters' for c in entry['children']):
                parameters.append('...')
            return f'{self.describe(inner)} function({", ".join(parameters)})'
        raise SystemExit(f'unknown kind of type: {tag}')

    def members(self, path, entry):
        yield path, f'{entry["tag"][:-5]} of {self.number(entry, "byte_size")} bytes'
        unnamed = 0
        for child in entry['children']:
            if child['tag'] != 'member':
                continue
            name, kind = self.name(child), self.target(child)
            if name is None:
                name, unnamed = f'(unnamed {unnamed})', unnamed + 1
            bits = ''.join(f', {a} {child[a]}' for a in ('bit_size', 'data_bit_offset')
                           if a in child)
            yield (f'{path}.{name}',
                   f'offset {self.number(child, "data_member_location")}, size {self.size(kind)}, '
                   f'{self.describe(kind)}{bits}')
            if kind['tag'] in ('structure_type', 'union_type') and self.name(kind) is None:
                yield from self.members(f'{path}.{name}', kind)

    def facts(self, pointer_prefix):
        for entry in self.entries.values():
            tag, name = entry['tag'], self.name(entry)
            if tag in ('structure_type', 'union_type') and name and 'declaration' not in entry:
                yield from self.members(self.describe(entry), entry)
            elif tag == 'enumeration_type':
                owner = self.describe(entry)
                if name:
                    yield owner, f'{self.size(entry)} bytes'
                for child in entry['children']:
                    if child['tag'] == 'enumerator':
                        value = self.number(child, 'const_value')
                        yield f'constant {self.name(child)}', f'{value:#x} of {owner}'
            elif tag == 'typedef':
                kind = self.target(entry)
                yield f'typedef {name}', self.describe(kind)
                if kind and self.name(kind) is None and kind['tag'] in ('structure_type',
                                                                        'union_type'):
                    yield from self.members(f'typedef {name}', kind)
            elif tag == 'variable' and name and name.startswith(pointer_prefix):
                function = self.target(self.target(entry))
                yield f'function {name[len(pointer_prefix):]}', self.describe(function)


def type_facts(cc, source, work):
    prefix = 'abi_pointer_'
    unit, obj = work / 'types.c', work / 'types.o'
    pointers = ''.join(f'__typeof__({n}) *{prefix}{n};\n' for n in function_names(cc, source, work))
    unit.write_text(source + pointers)
    checked(cc + ['-c', '-g', '-gdwarf-4', '-fno-eliminate-unused-debug-types',
                  '-o', str(obj), str(unit)])
    return dict(Dwarf(checked(['readelf', '-W', '--debug-dump=info', str(obj)])).facts(prefix))


# ---- Comparison ------------------------------------------------------------------------


def snapshot(compiler, include, entries):
    """All facts about a header set, by entry: {entry: {name: fact}}."""
    cc, facts = [compiler, *CFLAGS, f'-I{include}'], {}
    for entry, source in entries.items():
        with tempfile.TemporaryDirectory(prefix='dat-abi-') as work:
            facts[entry] = {**macro_facts(cc, source, Path(work)),
                            **type_facts(cc, source, Path(work))}
    return facts


def compare(ours, reference, added, corrected):
    """The differences of two snapshots as text, and how much was compared."""
    differences, unused, compared = [], set(added) | set(corrected), set()
    for entry in reference:
        us, them = ours[entry], reference[entry]
        for name in sorted(us.keys() | them.keys()):
            compared.add(name)
            if us.get(name) == them.get(name):
                continue
            if name in (added if name not in them else corrected):
                unused.discard(name)
                continue
            differences.append(f'{entry}: {name}\n    ours:      {us.get(name, "(missing)")}\n'
                               f'    reference: {them.get(name, "(missing)")}')
    differences += [f'allowed difference that is none: {name}' for name in sorted(unused)]
    return differences, len(compared)


# ---- Self-test -------------------------------------------------------------------------

# Each entry: a file, text in it, its replacement, and the difference to report.
MUTATIONS = [
    ('dat_error.h', '= 0x00070000,', '= 0x00070001,', 'constant DAT_INVALID_STATE'),
    ('dat.h', '0x7FF\n', '0x3FF\n', 'constant DAT_LMR_FIELD_ALL'),
    ('dat.h', '    DAT_VADDR       virtual_address;\n    DAT_SEG_LENGTH  segment_length;\n',
     '    DAT_SEG_LENGTH  segment_length;\n    DAT_VADDR       virtual_address;\n',
     'struct dat_lmr_triplet.virtual_address'),
    ('dat.h', 'event_extension_data[8]', 'event_extension_data[7]',
     'struct dat_event.event_extension_data'),
    ('dat.h', 'typedef DAT_UINT32 DAT_TIMEOUT;', 'typedef DAT_UINT64 DAT_TIMEOUT;',
     'typedef DAT_TIMEOUT'),
    ('dat.h', '#define DAT_NAME_MAX_LENGTH 256', '#define DAT_NAME_MAX_LENGTH 255',
     'macro DAT_NAME_MAX_LENGTH'),
    ('dat.h', '#define DAT_EP_STATE_ERROR DAT_EP_STATE_DISCONNECTED', '',
     'macro DAT_EP_STATE_ERROR'),
    ('dat.h', 'dat_srq_set_lw(DAT_SRQ_HANDLE srq_handle, DAT_COUNT low',
     'dat_srq_set_lw(DAT_SRQ_HANDLE srq_handle, DAT_UINT32 low', 'function dat_srq_set_lw'),
    ('dat_redirection.h', '->ep_reset_func)', '->ep_free_func)', 'macro DAT_EP_RESET'),
    ('udat_redirection.h', 'evd_enable_func;', 'evd_switch_on_func;',
     'struct dat_provider.evd_enable_func'),
    ('dat_registry.h', '"dat_provider_init"', '"dat_provider_start"',
     'macro DAT_PROVIDER_INIT_FUNC_STR'),
    ('dat_platform_specific.h', '#include <stdio.h>\n', '', 'system macro'),
    ('dat_ib_extensions.h', '(cookie), \\\n', '', 'macro dat_ib_post_fetch_and_add'),
]


def self_test(compiler, ours):
    """Does the comparison see the differences it should? Needs no reference."""
    everything = {'all headers': ''.join(ENTRIES.values())}
    unchanged = snapshot(compiler, ours, everything)
    with tempfile.TemporaryDirectory(prefix='dat-abi-self-') as place:
        copy = Path(place) / 'include'
        shutil.copytree(Path(ours) / 'dat2', copy / 'dat2')
        found, _ = compare(unchanged, snapshot(compiler, copy, everything), {}, {})
        results = {'identical headers': not found}
        # All at once: none touches what another is to be seen by.
        for file, old, new, _ in MUTATIONS:
            path = copy / 'dat2' / file
            text = path.read_text()
            if text.count(old) < 1:
                raise SystemExit(f'self-test out of date: no "{old}" in {file}')
            path.write_text(text.replace(old, new, 1))
        found, _ = compare(unchanged, snapshot(compiler, copy, everything), {}, {})
        for file, _, _, expected in MUTATIONS:
            results[f'{file}: {expected}'] = any(
                re.search(rf': {expected}\s', text) for text in found)
    for what, seen in results.items():
        print(f'{"ok" if seen else "NOT SEEN"}: {what}')
    return list(results.values()).count(False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--ours', default=Path(__file__).resolve().parents[2] / 'include',
                        help='directory that holds our dat2/')
    parser.add_argument('--reference', default='/usr/include',
                        help='directory that holds the reference dat2/')
    parser.add_argument('--cc', default='gcc', help='a GNU C compiler')
    parser.add_argument('--self-test', action='store_true',
                        help='check that changed headers are noticed')
    options = parser.parse_args()

    for tool in (options.cc, 'readelf'):
        if shutil.which(tool) is None:
            print(f'skipped: {tool} is not installed')
            return SKIP
    if options.self_test:
        return 1 if self_test(options.cc, options.ours) else 0
    if not (Path(options.reference) / 'dat2' / 'udat.h').is_file():
        print(f'skipped: no reference headers at {options.reference}/dat2 '
              '(Debian: apt install libdapl-dev)')
        return SKIP

    differences, compared = compare(snapshot(options.cc, options.ours, ENTRIES),
                                    snapshot(options.cc, options.reference, ENTRIES),
                                    ADDED, CORRECTED)
    print('\n'.join(differences))
    print(f'{compared} facts compared, {len(differences)} differences, '
          f'{len(ADDED)} additions and {len(CORRECTED)} corrections allowed')
    return 1 if differences else 0


if __name__ == '__main__':
    sys.exit(main())
