#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What the compiler says of a port that lacks an operation: one line each, with the name in it."""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "gen"))
import contract_check  # noqa: E402

HEADER = ROOT / "contract/dapls_ib.hpp"

PORT = """
#include "dapls_ib_check.hpp"
namespace dapl::DAPL_TRANSPORT {
struct types {
    struct hca {}; struct pd {}; struct mr {}; struct cq {}; struct qp {};
    struct cr {}; struct listener {};
    using wr = work_request;
};
struct transport : dapls_ib<types> {
    static constexpr features claims{.cq_resize = true};
    static void dapls_ib_close_hca(hca &);
    static void dapls_ib_pd_free(mr &);
};
template struct check_transport<transport>;
}
"""
WANTED = ("dapls_ib_open_hca is missing or mistyped, wanted: status (*)(hca &, ",
          "dapls_ib_pd_free is missing or mistyped, wanted: void (*)(pd &)",
          "the port claims cq_resize, but has no dapls_ib_cq_resize")
UNWANTED = ("dapls_ib_close_hca is missing", "the port claims cq_wait", "dapls_ib_cq_wait is")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("compiler", nargs=argparse.REMAINDER, help="and its arguments")
    compiler = [word for word in parser.parse_args().compiler if word != "--"]
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "dapls_ib_check.hpp").write_text(contract_check.check(HEADER))
        said = subprocess.run([*compiler, f"-I{folder}", "-fsyntax-only", "-x", "c++", "-"],
                              input=PORT, text=True, capture_output=True, check=False,
                              env={**os.environ, "LC_ALL": "C"}).stderr
    wrong = [f"not said: {each}" for each in WANTED if each not in said]
    wrong += [f"said: {each}" for each in UNWANTED if each in said]
    print(*wrong, sep="\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
