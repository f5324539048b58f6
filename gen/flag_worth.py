# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What feature flags are worth: in which order to measure, and what the numbers say.

Nothing is run here. A port is measured as it is, and without each flag; once more "without"
nothing, which shows the noise.
"""

import dataclasses
import random
import statistics

CONTROL = "nothing"  # the port beside a second build of itself
ALL = "all of them"

# The calls that are counted, and their names in tables.
CALLS = {"post_rdma_write": "write", "post_send": "send", "post_recv": "recv",
         "dequeue": "dequeue", "dequeue_empty": "empty", "wait_ready": "wait",
         "wait_many": "1 of 16"}
KINDS = {"instructions": "instructions", "stores": "words stored (what is copied is stored)",
         "atomics": "atomic operations", "locks": "locks taken"}
LINES = {"": "", "threadsafe": ", threadsafe line"}
WAYS = {"one": "one EVD", "two": "two EVDs", "cno": "CNO", "threshold": "16 by threshold"}
SWITCHES = {"process": "context switches", "thread": "wake-ups of the waiting thread"}
TIMES = {"latency": "half a round trip", "rate": "rate", "waiting": "both wait",
         "CNO": "both in a CNO"}

EXACT = 0.05  # counts of callgrind repeat
STEADY = 0.1  # counts of the scheduler do so nearly


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of a benchmark over two builds of a port."""

    flag: str
    with_first: bool


def plan(flags: list[str], rounds: int, seed: int) -> list[Run]:
    """Each round goes through all flags in an order of its own and back again, where the build that
    came second comes first: each flag is as often early as late, and as often first as second. The
    port beside itself begins."""
    dice = random.Random(seed)
    runs = []
    for _ in range(rounds):
        order = [Run(flag, dice.random() < 0.5) for flag in dice.sample(flags, len(flags))]
        order.insert(0, Run(CONTROL, dice.random() < 0.5))
        runs += order
        runs += [Run(CONTROL, not order[0].with_first)]
        runs += [Run(each.flag, not each.with_first) for each in reversed(order[1:])]
    return runs


def summary_of(ratios: list[float]) -> dict[str, float]:
    """The median and the middle half."""
    low, _, high = (statistics.quantiles(ratios, method="inclusive") if len(ratios) > 1
                    else ratios * 3)
    return {"median": statistics.median(ratios), "low": low, "high": high, "pairs": len(ratios)}


@dataclasses.dataclass(frozen=True)
class Cell:
    """A number of a table: the port's value, or the effect of a flag on it."""

    value: float | None  # None: not counted
    text: str
    judged: int = 0  # 1 the flag saves, -1 it costs, 0 neither


@dataclasses.dataclass(frozen=True)
class Table:
    title: str
    columns: list[str]
    rows: dict[str, list[Cell]]


AS_CLAIMED = "as claimed"
UNKNOWN = Cell(None, "?")


def number(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def absolute(value: float | None, digits: int) -> Cell:
    return UNKNOWN if value is None else Cell(value, number(value, digits))


def saved(pair: list[float] | None, digits: int, noise: float) -> Cell:
    if pair is None:
        return UNKNOWN
    worth = pair[1] - pair[0]
    if abs(worth) <= noise:
        return Cell(0, "·")
    return Cell(worth, number(worth, digits), 1 if worth > 0 else -1)


def counted_table(flags: dict[str, dict], title: str, prefix: str, names: dict[str, str],
                  digits: int, noise: float) -> Table | None:
    """What each flag saves of some counts; None where all are zero, or not counted."""
    keys = [f"{prefix}/{name}" for name in names]
    base = next(iter(flags.values()))["counts"]
    if not any(key in base for key in keys):
        return None
    rows = {AS_CLAIMED: [absolute(base[key][0] if key in base else None, digits) for key in keys]}
    for flag, found in flags.items():
        rows[flag] = [saved(found["counts"].get(key), digits, noise) for key in keys]
    if not any(cell.value for row in rows.values() for cell in row):
        return None
    return Table(title, list(names.values()), rows)


def ratio_cell(found: dict[str, float] | None, control: dict[str, float]) -> Cell:
    if found is None:
        return UNKNOWN
    text = f"{found['median']:.2f} ({found['low']:.2f}–{found['high']:.2f})"
    inside = control["low"] <= found["median"] <= control["high"]
    return Cell(found["median"], text, 0 if inside else 1 if found["median"] > 1 else -1)


def time_table(flags: dict[str, dict]) -> Table | None:
    control = flags[CONTROL]["times"]
    tests = [name for name in TIMES if name in control]
    if not tests:
        return None
    rows = {AS_CLAIMED: [Cell(each["with"], f"{each['with']:.3g} {each['unit']}")
                         for each in map(control.get, tests)]}
    for flag, found in flags.items():
        rows[flag] = [ratio_cell(found["times"].get(name), control[name]) for name in tests]
    return Table("time without the flag divided by time with it (middle half of all pairs)",
                 [TIMES[name] for name in tests], rows)


def tables_of(results: dict) -> list[Table]:
    """All there is to tell. The first row of a table is the port as it is; each other row says what
    its flag saves."""
    flags = results["flags"]
    found = [counted_table(flags, f"{title} per call{where}", f"{kind}{line and '-' + line}", CALLS,
                           1, EXACT)
             for kind, title in KINDS.items() for line, where in LINES.items()]
    found += [counted_table(flags, f"{title} per wait", kind, WAYS, 2, STEADY)
              for kind, title in SWITCHES.items()]
    return [each for each in [*found, time_table(flags)] if each is not None]
