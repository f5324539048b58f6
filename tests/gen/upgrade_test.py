#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""dapl-port upgrade: the printed steps lead a port to another version of the contract.

The folder version2_port has dapl-port's output when the contract was at version 2, before there
were lock files. Later versions are made here, in a copy of the kit.
"""

import difflib
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

from trees import KIT_PARTS, ROOT, contents, copy_tree, dapl_port, run  # noqa: E402

sys.path.insert(0, str(ROOT / "gen"))

import contract  # noqa: E402
import contract_check  # noqa: E402
import port_toml  # noqa: E402

VERSION_2 = pathlib.Path(__file__).with_name("version2_port")
VERSION = int(re.search(r"#define DAPLS_IB_VERSION (\d+)",
                        (ROOT / "contract/dapls_ib.hpp").read_text())[1])
CXX = os.environ.get("CXX", "g++").split()
LOCK = "dapl-port.lock"

# What the author of the port of version 2 has written into it.
WRITTEN = (
    ("port.hpp", "    struct cq {};",
     "    struct cq {\n        bool armed = false;\n        work_request *done = nullptr;\n    };"),
    ("port.hpp", "    struct qp {};", "    struct qp {\n        cq *sends = nullptr;\n    };"),
    ("port.hpp", "dapls_ib_completion_poll(cq &, completion &) { return false; }",
     "dapls_ib_completion_poll(cq &c, completion &out)\n    {\n"
     "        out = {};\n        out.wr = c.done;\n        return out.wr != nullptr;\n    }"),
    ("port.hpp", "dapls_ib_completion_notify(cq &) {}",
     "dapls_ib_completion_notify(cq &c) { c.armed = true; }"),
    ("hca.cpp", '    attr.hca_name = "acme";', '    attr.hca_name = "acme 100G";'),
    ("hca.cpp", "    attr.max_cq_depth = 1024;", "    attr.max_eps = 64;\n    attr.max_cq_depth = 4096;"),
)
# What a port of version 4 has otherwise.
AS_IN_VERSION_4 = (
    ("contract = 5", "contract = 4"), ("DAPLS_IB_VERSION == 5", "DAPLS_IB_VERSION == 4"),
    ("written for version 5", "written for version 4"), ("cq *, cq *, srq *,", "cq *, cq *,"),
    ("cq *send_cq, srq *,", "cq *send_cq,"), ("operation == opcode::send", "operation == DAT_DTO_SEND"),
    ("operation == opcode::rdma_write", "operation == DAT_DTO_RDMA_WRITE"),
)
DONE_2 = ("dapls_ib_completion_poll", "dapls_ib_completion_notify", "dapls_ib_query_hca")


def replace(path: pathlib.Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, (path, old, text.count(old))
    path.write_text(text.replace(old, new))


def finish(folder: pathlib.Path, *names: str) -> None:
    """Delete the lines of places that are done."""
    for path in folder.glob("*.?pp"):
        for name in names:
            path.write_text(re.sub(rf"(?m)^ *// TODO\(port\) (\d+ )?{name}:.*\n", "",
                                   path.read_text()))


class Upgrading(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.tree = copy_tree(pathlib.Path(temporary.name) / "tree", KIT_PARTS)
        self.folder = self.tree / "transports/acme"
        self.beside = self.folder / "upgrade"

    def run_upgrade(self, *options: object, **environment: str) -> tuple[int, str, str]:
        done = dapl_port(self.tree, "upgrade", "acme", *options, **environment)
        return done.returncode, done.stdout, done.stderr

    def upgrade(self, *options: object) -> dict:
        """The report for programs; the author's files stay as they are."""
        before = self.authors_files()
        code, told, said = self.run_upgrade(*options, "--json")
        self.assertEqual(said, "")
        self.assertEqual(self.authors_files(), before)
        found = json.loads(told)
        self.assertEqual(code, 0 if found["done"] else 1, told)
        return found

    def refused(self, *options: object, **environment: str) -> str:
        before = contents(self.tree)
        code, told, said = self.run_upgrade(*options, **environment)
        self.assertEqual((code, told, said.count("\n")), (1, "", 1), said)
        self.assertEqual(contents(self.tree), before)
        return said

    def authors_files(self) -> dict[str, str]:
        return {name: text for name, text in contents(self.folder).items()
                if not name.startswith("upgrade/")}

    def states(self, found: dict) -> dict[str, str]:
        return {each["file"]: each["state"] for each in found["files"]}

    def take_over(self) -> None:
        for path in self.beside.iterdir():
            shutil.copy(path, self.folder)
        shutil.rmtree(self.beside)

    def adapt(self, found: dict) -> None:
        """Do the printed steps, and no more."""
        for each in found["adapt"]:
            path = self.tree / each["file"]
            lines = path.read_text().split("\n")
            at = each["line"] - 1
            if number := re.match(r"say (\d+) here", each["text"]):
                lines[at] = re.sub(r"\d+", number[1], lines[at])
            elif feature := re.match(r"there is no feature '(\w+)'.* is in \[own_f", each["text"]):
                self.assertRegex(lines[at], rf"^{feature[1]} = false")
                lines[at] = ""
            else:
                name, has, shall = re.match(
                    r"(\w+) is \w+ \((.*)\), and in the contract \w+ \((.*)\): change",
                    each["text"]).groups()
                self.assertIn(name, lines[at])
                self.declare_anew(name, has.split(", "), shall.split(", "))
                continue
            path.write_text("\n".join(lines))

    def declare_anew(self, name: str, has: list[str], shall: list[str]) -> None:
        """Add the parameters that are new, in the declaration and in the definition."""
        added = [(place, shall[place]) for kind, _, _, first, end in
                 difflib.SequenceMatcher(None, has, shall, autojunk=False).get_opcodes()
                 if kind == "insert" for place in range(first, end)]
        self.assertTrue(added)

        def with_added(match: re.Match[str]) -> str:
            parameters = match[2].split(",")
            for place, kind in added:
                parameters.insert(place, f" {kind}")
            return f"{match[1]}({','.join(parameters)})"

        for path in self.folder.glob("*.?pp"):
            path.write_text(re.sub(rf"((?:transport::|static \w+ ){name})\(([^()]*)\)", with_added,
                                   path.read_text()))


class Compiling(Upgrading):
    def compiled(self) -> str:
        """What the compiler says of all of the port."""
        features = self.tree / "features.hpp"
        made = run(sys.executable, ROOT / "gen/port_features.py", "--contract",
                   ROOT / "contract/dapls_ib.hpp", "--profile", self.folder / "port.toml", "--port",
                   self.folder.name, "--output", features)
        if made.returncode != 0:
            return made.stderr
        whole, check = self.tree / "whole.cpp", self.tree / "dapls_ib_check.hpp"
        check.write_text(contract_check.check(ROOT / "contract/dapls_ib.hpp"))
        whole.write_text("".join(f'#include "{path}"\n'
                                 for path in (*self.folder.glob("*.cpp"), check))
                         + "template struct dapl::{0}::check_transport<dapl::{0}::transport>;\n"
                         .format(self.folder.name))
        return run(*CXX, "-std=c++20", "-fsyntax-only", f"-DDAPL_TRANSPORT={self.folder.name}",
                   f'-DDAPL_PORT_FEATURES="{features}"', *(f"-I{ROOT / each}" for each in (
                       "include", "contract", "osd", "osd/linux", "port_support")),
                   f"-I{self.folder}", whole, LC_ALL="C").stderr


class FromVersion4(Compiling):
    """The memory port, as it was when the contract was at version 4."""

    def setUp(self) -> None:
        super().setUp()
        self.folder = self.tree / "transports/memory"
        shutil.copytree(ROOT / "tests/memory_port", self.folder)
        for path in self.folder.glob("*"):
            text = path.read_text()
            for old, new in AS_IN_VERSION_4:
                text = text.replace(old, new)
            path.write_text(text)

    @unittest.skipUnless(shutil.which(CXX[-1]), "there is no compiler")
    def test_led_to_the_present_version(self) -> None:
        self.assertIn("written for version 4", self.compiled())
        done = dapl_port(self.tree, "upgrade", "--directory", self.folder, "--json")
        found = json.loads(done.stdout)
        self.assertEqual((done.returncode, found["contract"]), (1, {"port": 4, "kit": VERSION}))
        self.assertIn("opcode::send stands for DAT_DTO_SEND, rdma_write", found["changes"][0]["text"])
        self.adapt(found)
        self.assertIn("DAT_DTO_SEND", self.compiled())
        source = self.folder / "port.cpp"
        source.write_text(source.read_text().replace("== DAT_DTO_SEND", "== opcode::send")
                          .replace("== DAT_DTO_RDMA_WRITE", "== opcode::rdma_write"))
        self.assertEqual(self.compiled(), "")


class OnALayer(Compiling):
    """A port that has all operations from a layer of the port runtime, which moves with the kit."""

    @unittest.skipUnless(shutil.which(CXX[-1]), "there is no compiler")
    def test_says_its_version_and_no_more(self) -> None:
        copy_tree(self.tree, ("port_support",))
        self.folder = self.tree / "transports/datagram"
        self.folder.mkdir()
        for name in ("port.hpp", "port.toml", "device.cpp"):
            text = (ROOT / "tests/unconnected_port" / name).read_text()
            for old, new in AS_IN_VERSION_4[:3]:
                text = text.replace(old, new)
            (self.folder / name).write_text(text)
        self.assertIn("written for version 4", self.compiled())
        found = json.loads(dapl_port(self.tree, "upgrade", "--directory", self.folder, "--json").stdout)
        self.assertEqual({(pathlib.Path(each["file"]).name, each["text"].split(",")[0])
                          for each in found["adapt"]},
                         {(name, f"say {VERSION} here") for name in ("port.hpp", "port.toml")})
        self.adapt(found)
        self.assertEqual(self.compiled(), "")


class FromVersion2(Compiling):
    def setUp(self) -> None:
        super().setUp()
        shutil.copytree(VERSION_2, self.folder)
        for file, old, new in WRITTEN:
            replace(self.folder / file, old, new)
        finish(self.folder, *DONE_2)

    @unittest.skipUnless(shutil.which(CXX[-1]), "there is no compiler")
    def test_led_to_the_present_version(self) -> None:
        self.assertIn("written for version 2", self.compiled())
        found = self.upgrade()
        self.assertEqual(found["contract"], {"port": 2, "kit": VERSION})
        self.assertEqual([each["version"] for each in found["changes"]],
                         list(range(3, VERSION + 1)))
        self.assertIn("completion_notify and cq_wait take for which completions",
                      found["changes"][0]["text"])
        # A port of version 2 that does no more than compile fails these.
        cases = [case for change in found["changes"] for each in change["obliges"]
                 for case in each["cases"]]
        for case in ("MEM-14", "MEM-15", "MEM-16", "MEM-19", "EVD-39", "DTO-40"):
            self.assertIn(case, cases)
        self.assertIn(f"cases {', '.join(cases)} see", found["next"][-1])
        _, told, _ = self.run_upgrade()
        self.assertIn("\n  which obliges to what no compiler asks for:\n  - Memory that is not mapped",
                      told)
        self.assertIn("--base DIR", found["not_merged"])
        self.assertEqual({pathlib.Path(each["file"]).name for each in found["adapt"]},
                         {"port.hpp", "port.toml"})
        self.assertFalse(self.beside.exists())
        self.adapt(found)
        self.assertEqual(self.compiled(), "")
        found = self.upgrade()
        self.assertTrue(found["done"])
        self.assertEqual((found["adapt"], found["changes"]), ([], []))

    def test_merged_with_the_skeleton(self) -> None:
        found = self.upgrade("--base", VERSION_2)
        states = self.states(found)
        self.assertEqual(states["qp.cpp"], "taken")
        self.assertEqual(states["port.hpp"], "conflicts")
        self.assertEqual({*os.listdir(self.beside)}, {*states, LOCK})
        for each in found["files"]:
            lines = (self.beside / each["file"]).read_text().split("\n")
            self.assertEqual([number for number, line in enumerate(lines, 1)
                              if line.startswith("<<<<<<< ")], each["conflicts"])
            self.assertEqual(each["state"] == "conflicts", each["conflicts"] != [])
        self.assertFalse(found["done"])
        self.assertTrue(any("dapls_ib_completion_notify" in each["text"]
                            for each in found["adapt"]))
        # Its marks had no numbers.
        self.assertRegex((self.beside / "qp.cpp").read_text(), r"TODO\(port\) \d+ dapls_ib_qp_alloc")
        hpp = (self.beside / "port.hpp").read_text()
        self.assertNotRegex(hpp, r"TODO\(port\) (\d+ )?dapls_ib_completion_poll")

    def test_what_is_not_merged_is_not_done(self) -> None:
        code, told, _ = self.run_upgrade("--base", VERSION_2)
        self.assertEqual(code, 1)
        lines = re.findall(r"(?m)^  (transports/acme/upgrade/\S+):(\d+): conflict$", told)
        self.assertTrue(lines)
        for path, number in lines:
            text = (self.tree / path).read_text().split("\n")
            self.assertEqual(text[int(number) - 1], "<<<<<<< yours")
        self.assertIn(f"acme: not done, {len(lines)} conflicts and 3 places to adapt are left", told)
        self.assertIn("next:\n  1. resolve the conflicts", told)
        said = self.refused("--base", VERSION_2)
        self.assertIn("from an earlier upgrade, with conflicts at ", said)
        for path, number in lines:
            self.assertIn(f"{path}:{number}", said)
        shutil.rmtree(self.beside)
        before = contents(self.tree)
        code, dry, _ = self.run_upgrade("--base", VERSION_2, "--dry-run")
        self.assertEqual((code, contents(self.tree)), (1, before))
        self.assertEqual(dry, told)

    def test_a_base_that_is_none(self) -> None:
        self.assertIn("is no port as dapl-port writes it",
                      self.refused("--base", self.tree / "gen"))


class ChangeLog(unittest.TestCase):
    def test_names_what_there_is(self) -> None:
        """Each obligation has a case of the suite that wants it, and promises that exist."""
        header = ROOT / "contract/dapls_ib.hpp"
        sources = "".join(path.read_text() for path in (ROOT / "conformance/cases").glob("*.cpp"))
        cases = set(re.findall(r'"([A-Z]+-\d+): ', sources))
        promises = port_toml.known_features(header)
        log = contract.change_log(header)
        self.assertEqual(max(log), VERSION)
        self.assertTrue(log[3].obliges)
        for change in log.values():
            self.assertNotRegex(change.text, r"\b(MEM|EVD|DTO)-\d")
            for each in change.obliges:
                named = contract.cases_in(each)
                self.assertTrue(named, each)
                self.assertEqual(set(named) - cases, set())
                for words in re.findall(r"\[([a-z_, ]+)\]", each):
                    self.assertEqual(set(words.split(", ")) - set(promises), set())


class ToALaterVersion(Upgrading):
    """A port of today, and a kit whose contract has moved by one."""

    def setUp(self) -> None:
        super().setUp()
        self.new("--vendor", "Acme Networks", "--keys", "table")

    def new(self, *options: str) -> None:
        done = dapl_port(self.tree, "new", "acme", *options)
        self.assertEqual(done.returncode, 0, done.stderr)

    def status(self) -> dict:
        return json.loads(dapl_port(self.tree, "status", "acme", "--json").stdout)

    def move_contract(self) -> None:
        header = self.tree / "contract/dapls_ib.hpp"
        replace(header, f"#define DAPLS_IB_VERSION {VERSION}",
                f"///   {VERSION + 1}  qp_reset says\n///      why.\n"
                f"#define DAPLS_IB_VERSION {VERSION + 1}")
        replace(header, "static status dapls_ib_qp_reset(qp &)",
                "static status dapls_ib_qp_reset(qp &, DAT_COUNT why)")
        template = self.tree / "transports/template/qp.cpp.j2"
        replace(template, "status transport::dapls_ib_qp_reset(qp &q)\n",
                "status transport::dapls_ib_qp_reset(qp &q, DAT_COUNT /*why*/)\n")

    def test_nothing_has_moved(self) -> None:
        finish(self.folder, "dapls_ib_pd_alloc")
        found = self.upgrade()
        self.assertTrue(found["done"])
        self.assertEqual((found["files"], found["merged_in"], found["next"]), ([], None, []))
        self.assertFalse(self.beside.exists())

    def test_lock(self) -> None:
        text = (self.folder / LOCK).read_text()
        for line in ("format = 1", f"contract = {VERSION}", 'vendor = "Acme Networks"',
                     'keys = "table"', 'style = "bare"', "alone = false", "claims = []"):
            self.assertIn(f"\n{line}\n", text)
        self.assertRegex(text, r'\ngenerator = "[0-9a-f]{16}" #')
        self.assertNotIn("TODO", text)
        self.assertLess(len(text), 16_000)

    def test_all_is_merged(self) -> None:
        """Lines that the author wrote elsewhere, and places that are done, make no conflict."""
        replace(self.folder / "memory.cpp", "    zone.device = &device;\n    return not_supported;",
                "    zone.device = &device;\n    return success;")
        replace(self.folder / "qp.cpp", "    q.owner = params.owner;\n",
                "    q.owner = params.owner;\n    q.attempt.reset();\n")
        replace(self.folder / "port.toml", 'description = "Acme Networks: a port to be written"',
                'description = "Acme 100G"')
        finish(self.folder, "dapls_ib_pd_alloc", "dapls_ib_qp_alloc", "dapls_ib_qp_reset")
        self.move_contract()
        found = self.upgrade()
        self.assertEqual(found["changes"], [{"version": VERSION + 1, "text": "qp_reset says why.",
                                             "obliges": []}])
        self.assertEqual(self.states(found), {"port.hpp": "taken", "port.toml": "merged",
                                              "qp.cpp": "merged"})
        self.assertEqual((found["adapt"], found["done"]), ([], True))
        self.take_over()
        self.assertEqual(self.status()["contract"], {"port": VERSION + 1, "kit": VERSION + 1})
        qp = (self.folder / "qp.cpp").read_text()
        self.assertIn("q.attempt.reset();", qp)
        self.assertIn("dapls_ib_qp_reset(qp &q, DAT_COUNT /*why*/)", qp)
        self.assertNotIn("dapls_ib_qp_reset:", qp)
        self.assertIn('"Acme 100G"', (self.folder / "port.toml").read_text())
        again = self.upgrade()
        self.assertEqual((again["files"], again["done"]), ([], True))

    def test_both_have_changed_a_line(self) -> None:
        replace(self.folder / "qp.cpp", "status transport::dapls_ib_qp_reset(qp &q)\n",
                "status transport::dapls_ib_qp_reset(qp &pair)\n")
        replace(self.folder / "port.hpp", "    static status dapls_ib_qp_reset(qp &);",
                "    static status dapls_ib_qp_reset(types::qp &); // ours")
        self.move_contract()
        found = self.upgrade()
        self.assertEqual({name for name, state in self.states(found).items()
                          if state == "conflicts"}, {"port.hpp", "qp.cpp"})
        [signature] = [each for each in found["adapt"] if "dapls_ib_qp_reset" in each["text"]]
        self.assertIn("is status (qp &), and in the contract status (qp &, DAT_COUNT)",
                      signature["text"])
        lines = (self.tree / signature["file"]).read_text().split("\n")
        self.assertIn("// ours", lines[signature["line"] - 1])
        self.assertFalse(found["done"])

    def test_what_is_claimed_is_looked_for_in_what_is_merged(self) -> None:
        replace(self.folder / "port.toml", "cq_wait = false", "cq_wait = true")
        self.move_contract()
        found = self.upgrade()["adapt"]
        self.assertEqual({each["file"] for each in found}, {"transports/acme/upgrade/port.toml"})
        lines = (self.beside / "port.toml").read_text().split("\n")
        for each in found:
            self.assertIn("cq_wait is claimed, but the port has no", each["text"])
            self.assertIn("cq_wait = true", lines[each["line"] - 1])

    def test_the_skeleton_alone_has_changed(self) -> None:
        replace(self.folder / "qp.cpp", "q.domain = &zone;", "q.domain = &(zone);")
        template = self.tree / "transports/template/qp.cpp.j2"
        replace(template, "q.domain = &zone;", "q.domain = &zone; // later freed")
        found = self.upgrade()
        self.assertEqual((found["changes"], found["adapt"], self.states(found)),
                         ([], [], {"qp.cpp": "conflicts"}))
        self.assertFalse(found["done"])

    def test_places_get_other_numbers(self) -> None:
        finish(self.folder, "device", "dapls_ib_open_hca", "bring_up")
        replace(self.tree / "transports/template/hca.cpp.j2", "// TODO(port) cq take_notification",
                "// TODO(port) hca reset: reset the device\n// So that it is as new. See porting.md,"
                " HCA.\nvoid reset() {}\n\n// TODO(port) cq take_notification")
        replace(self.tree / "transports/template/port.hpp.j2", "Include the header of the device",
                "Include what is needed of the device")
        found = self.upgrade()
        self.assertEqual({*self.states(found).values()}, {"merged", "taken"})
        self.assertTrue(found["done"])
        self.take_over()
        told = self.status()["places"]
        self.assertIn("reset", told)
        self.assertNotIn("bring_up", told)
        self.assertEqual(len({*told.values()}), len(told))

    def test_files_come_and_go(self) -> None:
        (self.folder / "README.md").write_text("# Ours\n")
        (self.folder / "qp.cpp").unlink()
        replace(self.tree / "transports/template/README.md.j2", "## What to read", "## Read")
        (self.tree / "transports/template/memory.cpp.j2").unlink()
        text = (self.tree / "gen/dapls_ib.toml").read_text()
        (self.tree / "gen/dapls_ib.toml").write_text(text.replace('"memory.cpp"', '"regions.cpp"'))
        self.move_contract()
        found = self.upgrade()
        states = self.states(found)
        self.assertEqual({name: states[name] for name in ("README.md", "qp.cpp", "memory.cpp",
                                                          "regions.cpp")},
                         {"README.md": "kept", "qp.cpp": "kept", "memory.cpp": "kept",
                          "regions.cpp": "new"})
        why = {each["file"]: each["why"] for each in found["files"]}
        self.assertIn("you have deleted it", why["qp.cpp"])
        self.assertIn("has it no longer; you had not changed it", why["memory.cpp"])
        self.assertFalse((self.beside / "qp.cpp").exists())

    def test_lines_that_end_otherwise(self) -> None:
        replace(self.folder / "qp.cpp", "q.domain = &zone;", "q.domain = &(zone);")
        for path in self.folder.glob("*.?pp"):
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
        self.move_contract()
        self.assertEqual(self.states(self.upgrade())["qp.cpp"], "merged")
        self.assertEqual((self.beside / "qp.cpp").read_bytes().count(b"\r\n"),
                         (self.beside / "qp.cpp").read_bytes().count(b"\n"))

    def test_bytes_that_are_no_text(self) -> None:
        path = self.folder / "qp.cpp"
        path.write_bytes(path.read_bytes() + b"// \xe4\n")
        self.move_contract()
        self.upgrade()
        self.assertTrue((self.beside / "qp.cpp").read_bytes().endswith(b"// \xe4\n"))

    def test_a_port_that_works(self) -> None:
        shutil.rmtree(self.folder)
        names = self.tree / "transports/meson.build"
        names.write_text(names.read_text().replace("  'acme',\n", ""))
        self.new("--style", "sim")
        template = self.tree / "transports/template/sim/hw.cpp.j2"
        replace(template, "    out.max_reads = 128;", "    out.max_reads = 64;")
        found = self.upgrade()
        self.assertEqual((self.states(found), found["done"]), ({"acme_hw.cpp": "taken"}, True))

    def test_what_is_merged_is_not_the_port(self) -> None:
        replace(self.folder / "qp.cpp", "q.domain = &zone;", "q.domain = &(zone);")
        self.move_contract()
        before = self.status()
        self.upgrade()
        finish(self.folder, "dapls_ib_qp_alloc")
        after = self.status()
        self.assertEqual(len(after["places"]), len(before["places"]) - 1)

    def test_refusals(self) -> None:
        lock = self.folder / LOCK
        good = lock.read_text()
        for old, new, answer in (
                ("format = 1", "format = 2", "this has format 2, and this dapl-port reads format 1"),
                ("format = 1", "format 1", f"{LOCK}:6: this is no TOML"),
                ('files = """\n', 'files = """\nAAAA', "this is damaged"),
                ('files = """\n', 'fils = """\n', "this is damaged"),
                ('style = "bare"', 'stile = "bare"', "this is damaged"),
                ("claims = []", "claims = 3", "this is damaged")):
            with self.subTest(new=new):
                self.assertIn(old, good)
                lock.write_text(good.replace(old, new))
                self.assertIn(answer, self.refused())
        lock.write_text(good)
        self.assertIn("leave out --base", self.refused("--base", self.folder))
        self.move_contract()
        replace(self.folder / "qp.cpp", "q.domain = &zone;", "q.domain = &(zone);")
        self.assertIn("git is missing", self.refused(PATH=str(self.tree)))
        replace(self.folder / "port.toml", f"contract = {VERSION}", f"contract = {VERSION + 2}")
        self.assertIn(f"was written for version {VERSION + 2} of the contract, and this kit has"
                      f" version {VERSION + 1}", self.refused())


if __name__ == "__main__":
    unittest.main()
