#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The tree follows the REUSE specification, by its own tool.

A plain "lint" of reuse 5 and later complains of licence expressions that are filled in later, too:
those of the templates of ports. What it counts as non-compliance in its JSON holds everywhere.

Exit status: 0 compliant, 1 not, 77 the tool is missing.
"""

import json
import shutil
import subprocess
import sys

SKIP = 77


def lint(tree: str, *options: str) -> subprocess.CompletedProcess:
    return subprocess.run(["reuse", "--root", tree, "lint", *options], capture_output=True,
                          text=True, check=False)


def problems(tree: str) -> str:
    if "--json" not in lint(tree, "--help").stdout:
        done = lint(tree)
        return done.stdout + done.stderr if done.returncode != 0 else ""
    done = lint(tree, "--json")
    try:
        found = json.loads(done.stdout)["non_compliant"]
    except (ValueError, KeyError):
        return f"no report: {done.stdout[:1000]}{done.stderr}"
    return "\n".join(f"{kind}: {what}" for kind, what in found.items() if what)


def main() -> int:
    if not shutil.which("reuse"):
        print("skipped: reuse is missing, of Debian's package of that name")
        return SKIP
    found = problems(sys.argv[1])
    if found:
        print(found)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
