#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The contract's header, its table and its reference page agree.

The first class holds the real files against each other. The others see that a difference would be
found, on copies with one thing changed.
"""

import copy
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "gen"))
sys.dont_write_bytecode = True

import contract  # noqa: E402
import contract_check  # noqa: E402
import contract_reference  # noqa: E402

HEADER = ROOT / "contract/dapls_ib.hpp"
TABLE = ROOT / "gen/dapls_ib.toml"
PAGE = ROOT / "docs/contract.md"


def conformance_rules() -> set[str]:
    """Ids of the cases there are; case families may be listed in a catalogue as well."""
    text = "".join(path.read_text() for path in (ROOT / "conformance").rglob("*.cpp"))
    return set(re.findall(r"\b([A-Z]+-\d\d)\b", text))


class RealFiles(unittest.TestCase):
    def test_header_and_table_agree(self) -> None:
        found = contract.differences(contract.read_header(HEADER), contract.read_table(TABLE))
        self.assertFalse(found, "contract/dapls_ib.hpp and gen/dapls_ib.toml disagree:\n  "
                         + "\n  ".join(found))

    def test_reference_is_up_to_date(self) -> None:
        text = contract_reference.reference(HEADER, TABLE)
        self.assertTrue(PAGE.exists() and PAGE.read_text() == text,
                        "docs/contract.md is out of date; run: python3 gen/contract_reference.py")

    def test_promises_are_whole(self) -> None:
        """Promises are whole, also if the header continues them on a second line."""
        promises = contract.read_header(HEADER).features
        self.assertEqual([name for name, text in promises.items() if text.endswith((":", ","))], [])
        self.assertTrue(promises["send_invalidate"].endswith("post_extended, mw_is_bound"))

    def test_rules_exist(self) -> None:
        table = contract.read_table(TABLE)
        rows = {**table["operations"], **table["upcalls"]}
        there = conformance_rules()
        unknown = [f"{name}: {rule}" for name, row in rows.items() for rule in row["rules"]
                   if rule not in there]
        self.assertFalse(unknown, "the table names cases that dapl-conformance does not have:\n  "
                         + "\n  ".join(unknown))

    def test_every_required_operation_has_a_rule(self) -> None:
        operations = contract.operations(contract.read_header(HEADER), contract.read_table(TABLE))
        self.assertEqual([each.name for each in operations if each.required and not each.rules], [])

    def test_check_holds_every_operation(self) -> None:
        header, text = contract.read_header(HEADER), contract_check.check(HEADER)
        for name, declared in header.operations.items():
            self.assertIn(f"DAPLS_IB_OP({name}, {declared.returns} (*)(", text)
            for feature in declared.features:
                self.assertIn(f"DAPLS_IB_CLAIM({feature}, {name});", text)
        self.assertIn("DAPLS_IB_OP(dapls_ib_cq_alloc, status (*)(hca &, cq &, evd &, DAT_COUNT &));",
                      text)


def header_with(old: str, new: str) -> contract.Header:
    """The header with one text replaced, which has to be there."""
    text = HEADER.read_text()
    if old not in text:
        raise AssertionError(f"the header has no '{old}' to change; change the test")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / HEADER.name
        path.write_text(text.replace(old, new))
        return contract.read_header(path)


class Differences(unittest.TestCase):
    def setUp(self) -> None:
        self.header = contract.read_header(HEADER)
        self.table = copy.deepcopy(contract.read_table(TABLE))
        self.row = self.table["operations"]["dapls_ib_cq_alloc"]

    def expect(self, wanted: str, header: contract.Header | None = None) -> None:
        found = contract.differences(header or self.header, self.table)
        self.assertTrue(any(wanted in line for line in found), f"no '{wanted}' in {found}")

    def test_operation_missing_in_the_table(self) -> None:
        del self.table["operations"]["dapls_ib_cq_alloc"]
        self.expect("dapls_ib_cq_alloc: is an operation of the header, but not in the table")
        self.expect("[operations.dapls_ib_cq_alloc]")  # the row to add

    def test_operation_missing_in_the_header(self) -> None:
        self.table["operations"]["dapls_ib_fly"] = self.row
        self.expect("dapls_ib_fly: is an operation of the table, but not in the header")

    def test_no_thread_word(self) -> None:
        self.expect("dapls_ib_mr_deregister: the header's text has no thread word", header_with(
            "from its memory. Control.", "from its memory."))

    def test_unknown_feature(self) -> None:
        self.expect("dapls_ib_cq_wait: the header has no feature 'naps'",
                    header_with("/// [cq_wait] Sleeps", "/// [naps] Sleeps"))

    def test_upcalls(self) -> None:
        del self.table["upcalls"]["dapls_cr_callback"]
        self.expect("dapls_cr_callback: is an upcall of the header, but not in the table")

    def test_rows_are_complete(self) -> None:
        del self.row["brief"]
        self.row["speed"] = "high"
        self.expect("dapls_ib_cq_alloc: the table says nothing about 'brief'")
        self.expect("dapls_ib_cq_alloc: the table has an unknown 'speed'")

    def test_operations_of_their_own_rules_name_their_lane(self) -> None:
        del self.table["operations"]["dapls_ib_cq_count"]["lane"]
        self.table["operations"]["dapls_ib_post_recv"]["lane"] = "sky"
        for name in ("cq_count", "post_recv"):
            self.expect(f"dapls_ib_{name}: the table shall say in which lane it is")

    def test_optional_operations_name_their_feature(self) -> None:
        with self.assertRaisesRegex(contract.ContractError, "dapls_ib_cq_wait: .*feature"):
            header_with("/// [cq_wait] Sleeps", "/// Sleeps")

    def test_required_operations_name_none(self) -> None:
        with self.assertRaisesRegex(contract.ContractError, "dapls_ib_open_hca: .*required"):
            header_with("/// Opens the device", "/// [cq_wait] Opens the device")


class Types(unittest.TestCase):
    def test_names_are_taken_off(self) -> None:
        for parameter, kind in {
            "DAT_COUNT &depth": "DAT_COUNT &", "const cq &": "const cq &", "cq *send_cq": "cq *",
            "osd::deadline": "osd::deadline", "osd::deadline until": "osd::deadline",
            "DAT_COUNT segments": "DAT_COUNT", "const DAT_LMR_TRIPLET *": "const DAT_LMR_TRIPLET *",
            "const hca": "const hca", "bool": "bool",
        }.items():
            self.assertEqual(contract.without_name(parameter), kind)

    def test_white_space_does_not_matter(self) -> None:
        self.assertEqual(contract.split_parameters("cq&a,\n  const  qp & /*b*/, f<a, b> *c"),
                         ("cq &a", "const qp &", "f<a, b> *c"))


if __name__ == "__main__":
    unittest.main()
