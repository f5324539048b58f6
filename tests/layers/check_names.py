#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""See the compiler's answer to a port's own names.

A port may use every name that the headers for ports do not declare. A port that defines a class of
the name of an object that the contract knows (endpoint, evd …) does not compile: otherwise the
linker would take two classes for one.
"""

import argparse
import os
import re
import subprocess
import sys

SHARED = ("adapter", "endpoint", "evd", "service_point", "shared_recv_queue", "work_queue")
FREE = ("cr", "cno", "link", "object", "pool", "lmr")


def refused(compiler: list[str], names: tuple[str, ...]) -> set[str]:
    """The names that a port cannot give to a class of its own."""
    text = '#include "dapls_ib.hpp"\nnamespace dapl::DAPL_TRANSPORT {\n'
    text += "".join(f'#line 1 "{name}"\nclass {name} {{}};\n' for name in names) + "}\n"
    done = subprocess.run([*compiler, "-fsyntax-only", "-x", "c++", "-"], input=text, text=True,
                          capture_output=True, check=False, env={**os.environ, "LC_ALL": "C"})
    return set(re.findall(r"^(\w+):1:.* error:", done.stderr, re.M))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("compiler", nargs=argparse.REMAINDER, help="and its arguments")
    compiler = [word for word in parser.parse_args().compiler if word != "--"]
    wrong = [f"a port cannot have a class {name}" for name in refused(compiler, FREE)]
    wrong += [f"a port can have a class {name}" for name in set(SHARED) - refused(compiler, SHARED)]
    print(*wrong, sep="\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
