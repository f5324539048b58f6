#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The stress program over adapters under plans of faults that come by chance.

A plan follows from its seed. Calls fail with a documented code and are repeated, connections end
and requests are refused for no reason; all other rules that the stress program knows hold, nothing
crashes or hangs, and a closed adapter leaves nothing behind.
"""

import argparse
import os
import random
import subprocess
import sys
import time

# A port may refuse these; not posts, which do not fail where a port claims threadsafe_post.
REFUSED = ("pd_alloc", "cq_alloc", "qp_alloc", "mw_alloc", "mr_register", "cq_resize", "qp_reset",
           "setup_conn_listener", "connect", "accept_connection", "mw_bind")
# What a port may do, though it seldom does. A completion is not late: its request may be gone.
ODD = ("request_completion:{when}:status=DAT_DTO_ERR_LOCAL_PROTECTION",
       "evd_dto_callback:{when}:twice", "evd_connection_callback:{when}:slow=3",
       "evd_connection_callback:{when}:twice", "evd_qp_async_error_callback:{when}:early",
       "cr_callback:{when}:skip", "disconnect:{when}:slow=3", "qp_free:{when}:slow=3",
       "cq_wait:{when}:skip", "cno_wait:{when}:skip")


def plan(seed: int) -> str:
    chance = random.Random(seed)

    def when() -> str:
        return f"~{chance.choice((2, 4, 16, 64))}"

    refused = [f"{name}:{when()}:DAT_INSUFFICIENT_RESOURCES"
               for name in chance.sample(REFUSED, chance.randint(1, 6))]
    odd = [each.format(when=when()) for each in chance.sample(ODD, chance.randint(1, 4))]
    return ",".join([f"seed:{seed}", *refused, *odd])


# The program itself reports calls that do not return, after --patience. This limit is for hangs
# that it does not see; sanitized and on a busy machine a plan of three seconds takes more than a
# minute.
HANGS = 300


def run(options: argparse.Namespace, adapter: str, seed: int) -> str:
    """The error of a run; empty if there is none."""
    environment = {**os.environ, "DAPL_FAULT": plan(seed), "DAPL_FAULT_LOG": os.devnull}
    command = [options.hammer, "--faults", "--ia", adapter, "--seed", str(seed),
               "--seconds", str(options.seconds), "--worlds", "2", "--patience", "20"]
    if adapter.startswith("ofi"):
        command += ["--keep-loaded", "libfabric.so.1"]
    try:
        done = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=options.seconds + HANGS,
                              check=False)
    except subprocess.TimeoutExpired as late:
        return f"hangs\n{(late.stdout or b'').decode(errors='replace')}"
    return "" if done.returncode == 0 else f"ends with {done.returncode}\n{done.stdout}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hammer", required=True, help="the stress program")
    parser.add_argument("--ia", action="append", required=True, help="may be repeated")
    parser.add_argument("--plans", type=int, required=True, metavar="N", help="for each adapter")
    parser.add_argument("--seed", type=int, help="of the first plan; else any")
    parser.add_argument("--seconds", type=int, default=3, help="for each plan")
    options = parser.parse_args()
    first = options.seed if options.seed is not None else random.SystemRandom().randrange(1, 10**6)
    began = time.monotonic()
    failures = []
    for seed in range(first, first + options.plans):
        for adapter in options.ia:
            wrong = run(options, adapter, seed)
            print(f"{'FAIL' if wrong else 'ok  '} {adapter} {plan(seed)}", flush=True)
            if wrong:
                failures.append(f"{adapter} {plan(seed)}: {wrong}")
    for failure in failures:  # at the end, which is what logs keep of a long output
        print("FAIL " + failure.replace("\n", "\n     "))
    print(f"{options.plans * len(options.ia)} plans, {len(failures)} failed, "
          f"{time.monotonic() - began:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
