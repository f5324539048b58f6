#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The table of names has every constant of the public headers, and its errors are reported."""

import pathlib
import re
import sys
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "gen"))
sys.dont_write_bytecode = True

import dat_names  # noqa: E402

TABLE = tomllib.loads((ROOT / "gen/dat_names.toml").read_text())

# The enumerations of the headers that a section covers, and their constants that are no values.
ENUMERATIONS = {
    "return_type_name": ["DAT_RETURN_TYPE"],
    "return_subtype_name": ["DAT_RETURN_SUBTYPE"],
    "event_name": ["DAT_EVENT_NUMBER", "DAT_IB_EVENT_NUMBER"],
    "ep_state_name": ["DAT_EP_STATE"],
    "dto_status_name": ["DAT_DTO_COMPLETION_STATUS"],
    "operation_name": ["DAT_DTOS", "DAT_IB_DTOS"],
}
# Sections that have only those constants that the kit keeps.
KEPT_OF = {
    "adapter_counter_name": "DAT_IA_COUNTERS",
    "endpoint_counter_name": "DAT_EP_COUNTERS",
    "evd_counter_name": "DAT_EVD_COUNTERS",
}
NO_VALUES = {
    "DAT_DTO_EXTENSION_BASE", "DAT_EXTENSION_EVENT", "DAT_IB_EXTENSION_RANGE_BASE",
    "DAT_IW_EXTENSION_RANGE_BASE",
}


def enumerations() -> dict[str, list[str]]:
    text = "".join(path.read_text() for path in sorted((ROOT / "include/dat2").glob("*.h")))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = re.findall(r"typedef enum \w+ \{([^}]*)\} (\w+);", text)
    return {name: re.findall(r"^ *(\w+)", body, re.M) for body, name in found}


class RealTable(unittest.TestCase):
    def test_has_all_constants_in_order(self) -> None:
        self.assertEqual(set(TABLE), set(ENUMERATIONS) | set(KEPT_OF))
        constants = enumerations()
        for section, covers in ENUMERATIONS.items():
            wanted = [name for each in covers for name in constants[each] if name not in NO_VALUES]
            empty = [TABLE[section]["empty"]] if "empty" in TABLE[section] else []
            self.assertEqual(empty + TABLE[section]["names"], wanted, section)

    def test_has_kept_constants_in_order(self) -> None:
        constants = enumerations()
        for section, enumeration in KEPT_OF.items():
            names = TABLE[section]["names"]
            self.assertEqual(names, [name for name in constants[enumeration] if name in names])


class Header(unittest.TestCase):
    def test_value_without_a_name(self) -> None:
        section = {"type": "T", "names": ["A"]}
        self.assertIn("default:\n        return nullptr;", dat_names.function("f", section))
        section["unknown"] = "unknown T"
        self.assertIn('default:\n        return "unknown T";', dat_names.function("f", section))

    def test_misspelt_key(self) -> None:
        with self.assertRaisesRegex(dat_names.TableError, "f: unknown key typ"):
            dat_names.function("f", {"typ": "T", "names": []})


if __name__ == "__main__":
    unittest.main()
