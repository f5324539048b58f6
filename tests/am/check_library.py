#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Check what libdapl-am depends on and exports, and that a build without PMIx leaves it out and says
so.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ALLOWED = {"libdat2", "libpmix", "libc", "ld-linux-x86-64",
           # libraries of builds with sanitizers
           "libasan", "libtsan", "libubsan", "libstdc++", "libgcc_s", "libm"}


def run(command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **more)


def check_needed(library):
    found = run(["readelf", "-d", library]).stdout
    needed = re.findall(r"\(NEEDED\).*\[([^\]]+)\]", found)
    strange = [name for name in needed if name.split(".so")[0] not in ALLOWED]
    print(f"{pathlib.Path(library).name} needs {', '.join(needed)}")
    if strange:
        print(f"FAILED: it may not depend on {', '.join(strange)}")
    return bool(needed) and not strange


def check_exports(library, header):
    """It exports what the header declares, each with a version; std's functions, if they came along,
    would replace a program's.
    """
    found = run(["nm", "-D", "--defined-only", "--with-symbol-versions", library]).stdout
    names = {line.split()[-1] for line in found.splitlines() if line.split()[1] != "A"}
    declared = set(re.findall(r"(?<!typedef )\b\w+ \**(dapl_am_\w+)\(", pathlib.Path(header).read_text()))
    without = {name for name in names if not re.search(r"@@DAPL_AM_\d+\.\d+$", name)}
    exported = {name.split("@")[0] for name in names}
    for what, wrong in {"does not export": declared - exported, "exports": exported - declared,
                        "gives no version to": without}.items():
        if wrong:
            print(f"FAILED: it {what} {', '.join(sorted(wrong))}")
    return bool(names) and exported == declared and not without


def check_without_pmix(source, meson):
    with tempfile.TemporaryDirectory() as folder:
        job = run([*meson, "setup", folder, source, "-Dports=soft", "-Dtests=false",
                   "-Dbenchmarks=false", "-Dconformance=disabled"],
                  env=dict(os.environ, PKG_CONFIG_LIBDIR="/nonexistent"))
    lines = [line.strip() for line in job.stdout.splitlines() if "libdapl-am" in line]
    print("\n".join(["without PMIx:", *lines]))
    good = (job.returncode == 0 and any("left out" in line and "libpmix-dev" in line
                                        for line in lines))
    if not good:
        print(job.stdout[-3000:], job.stderr[-3000:])
        print("FAILED: the build does not say that libdapl-am is left out, and why")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library")
    parser.add_argument("--header")
    parser.add_argument("--source")
    parser.add_argument("--meson", nargs="+", default=["meson"])
    args = parser.parse_args()
    good = not args.library or (check_needed(args.library)
                                & check_exports(args.library, args.header))
    good &= not args.source or check_without_pmix(args.source, args.meson)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
