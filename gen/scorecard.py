# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What dapl-conformance --json has written, as a port author reads it: by groups of cases."""

import collections
import dataclasses
import json
import pathlib

import port_toml

FAILURES = ("failed", "error", "unexpected pass", "unexpected refusal", "unexpected failure")
# What cases of the suite call the capability that they need, where features have other names.
CAPABILITIES = {
    "rmr_bind": ("memory_windows",), "rmr_create_for_ep": ("ep_windows",),
    "evd_resize": ("cq_resize",), "send_with_invalidate": ("send_invalidate",),
    "rdma_read_to_rmr": ("read_to_rmr",), "extensions": ("immediate_data", "atomics"),
}

# The call whose refusal ended a case that is not claimed, or what such a case gives as its reason,
# and the group of operations in dapls_ib.toml that it waits for.
REFUSALS = {
    "dat_pz_create": "pd", "dat_lmr_create": "mr", "create": "mr", "dat_evd_create": "cq",
    "dat_ep_create": "qp", "dat_ep_connect": "conn", "connect": "conn", "back": "conn",
    "connections": "conn", "dat_ep_post_recv": "data", "dat_ep_post_rdma_write": "data",
    "post_recv": "data", "recv": "data", "send": "data", "write": "data", "read": "data",
    "extensions": "data", "immediate data": "data", "fetch-and-add": "data",
    "compare-and-swap": "data", "dat_srq_create": "srq", "shared receive queues": "srq",
    "dat_rmr_create": "mw", "binding of RMRs": "mw",
}


def json_of(path: pathlib.Path, text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise port_toml.ProfileError(f"this is no JSON: {error.msg}", path, error.lineno) from error
    except (ValueError, RecursionError) as error:  # a number without end, brackets without end
        raise port_toml.ProfileError("this is no JSON that can be read", path, 1) from error


def parsed(path: pathlib.Path, text: str) -> tuple[dict, list[dict]]:
    """All that it says, and its cases."""
    told = json_of(path, text)
    if not isinstance(told, dict) or not isinstance(told.get("results"), list):
        raise port_toml.ProfileError("this is no scorecard of dapl-conformance --json", path, 1)
    return told, [each for each in told["results"] if isinstance(each, dict)]


def needs_of(case: dict) -> list[tuple[str, ...]]:
    """The features that a case needs: of each of them one is enough. What else it needs, as a line
    of dat.conf or a promise, is a tuple of a name that no feature has."""
    return [CAPABILITIES.get(word, (word,)) for word in str(case.get("needs", "")).split()]


def waits_for(case: dict) -> str | None:
    """The group of operations that a waiting case waits for, if it can be told."""
    return REFUSALS.get(str(case.get("refused_call") or case.get("reason")))


@dataclasses.dataclass
class Group:
    """The cases of a group, counted."""

    name: str
    passed: int = 0
    failed: int = 0
    waived: int = 0
    not_claimed: int = 0  # by port.toml, by a promise, by how the suite was started
    waiting: int = 0  # cases that wait for operations still to be written

    @property
    def is_green(self) -> bool:
        """All that the port can pass, as it is to be, does."""
        return self.passed > 0 and self.failed == 0 and self.waiting == 0

    def add(self, case: dict, claims: dict[str, bool]) -> None:
        outcome = case.get("outcome")
        if outcome in FAILURES:
            self.failed += 1
        elif outcome == "passed":
            self.passed += 1
        elif outcome == "waived":
            self.waived += 1
        elif all(any(claims.get(each, False) for each in some) for some in needs_of(case)):
            self.waiting += 1
        else:
            self.not_claimed += 1


@dataclasses.dataclass
class Scorecard:
    """What the suite said of an adapter of the port."""

    path: pathlib.Path
    adapter: str
    date: str
    groups: list[Group]
    failed: list[str]  # cases
    waits: dict[str, int]  # how many wait for a group of operations


def read(path: pathlib.Path, claims: dict[str, bool]) -> Scorecard:
    told, cases = parsed(path, port_toml.text_of(path))
    device = told.get("device")
    if isinstance(device, dict) and device.get("judged") is False:
        raise port_toml.ProfileError(f"{told.get('adapter')} was not judged:"
                                     f" {device.get('reason', 'it cannot be opened')}", path)
    groups: dict[str, Group] = {}
    waits: collections.Counter[str] = collections.Counter()
    for each in cases:
        group = groups.setdefault(str(each.get("group")), Group(str(each.get("group"))))
        before = group.waiting
        group.add(each, claims)
        if group.waiting > before and (part := waits_for(each)):
            waits[part] += 1
    failed = [str(each.get("rule")) for each in cases if each.get("outcome") in FAILURES]
    return Scorecard(path, str(told.get("adapter")), str(told.get("date", "")),
                     list(groups.values()), failed, dict(waits))
