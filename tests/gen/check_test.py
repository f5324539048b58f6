#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""dapl-port check: a whole port has no fault, and each mistake is said where it stands."""

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
import port_check  # noqa: E402
import port_toml  # noqa: E402
import scorecard  # noqa: E402
import skeleton  # noqa: E402

TODAY = "2026-07-01"
KIT = skeleton.Kit(ROOT)
CONF = ('memory-lo u2.0 nonthreadsafe default /lib/libdapl-memory.so.2 dapl.2.0 "lo" ""\n'
        'memory-lo u2.0 threadsafe default /lib/libdapl-memory.so.2 dapl.2.0 "lo" ""\n')
WAIVER = {"case": "EVD-01", "reason": "slow", "failure": "hangs", "link": "https://example.org/1",
          "until": "2026-12-31"}
CARD = {"adapter": "memory-lo", "device": {"judged": True}, "results": [
    {"rule": "EVD-01", "outcome": "passed", "reason": ""},
    {"rule": "SRQ-01", "outcome": "not claimed", "reason": "the adapter has none", "needs": "srq"}]}
WRITTEN = "    static osd::wait_result dapls_ib_cq_wait(cq &, notify_on, DAT_COUNT, osd::deadline);\n"
WAKEUP = "    static void dapls_ib_cq_wakeup(cq &);\n"


def setUpModule() -> None:
    os.environ.pop("DAT_OVERRIDE", None)  # dapl-port reads it


class WithPort(unittest.TestCase):
    """A copy of tests/memory_port, to be spoiled."""

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name) / "memory"
        shutil.copytree(ROOT / "tests/memory_port", self.folder)
        (self.folder / "waivers.json").write_text(json.dumps([WAIVER], indent=1))
        self.conf = pathlib.Path(temporary.name) / "dat.conf"
        self.conf.write_text(CONF)
        self.card = pathlib.Path(temporary.name) / "card.json"
        self.card.write_text(json.dumps(CARD, indent=1))

    def replace(self, name: str, old: str, new: str) -> None:
        path = self.folder / name
        text = path.read_text()
        self.assertIn(old, text)
        path.write_text(text.replace(old, new, 1))

    def add(self, name: str, text: str, after: str) -> None:
        self.replace(name, after, after + text)

    def line(self, name: str, text: str) -> int:
        """The number of the line of a port's file that has a text."""
        content = (self.folder / name).read_text()
        self.assertIn(text, content)
        return content.count("\n", 0, content.index(text)) + 1

    def judge(self) -> port_check.Verdict:
        return port_check.judge(KIT, self.folder, port_check.Given(self.conf, (self.card,), TODAY))

    def found(self) -> list[str]:
        return [str(each).removeprefix(f"{self.folder}/") for each in self.judge().findings]

    def expect(self, pattern: str) -> None:
        """One thing is found, and nothing else."""
        found = self.found()
        self.assertEqual(len(found), 1, found)
        self.assertRegex(found[0], f"^{pattern}")

    def test_nothing_is_wrong(self) -> None:
        verdict = self.judge()
        self.assertEqual((self.found(), verdict.not_judged), ([], []))
        self.assertEqual(verdict.name, "memory")


class PortToml(WithPort):
    def fault(self, old: str, new: str, answer: str) -> None:
        self.replace("port.toml", old, new)
        self.expect(f"port.toml:{self.line('port.toml', new.strip())}: error: {answer}")

    def test_no_toml(self) -> None:
        self.fault("[features]", "[features", "this is no TOML")

    def test_toml_without_end(self) -> None:
        for text in ("x = " + "[" * 20000, "x = " + "1" * 20000):
            (self.folder / "port.toml").write_text(text)
            self.expect("port.toml:1: error: this is no TOML that can be read")

    def test_misspelt_table(self) -> None:
        self.fault("[features]", "[feature]", r"there is no 'feature'; .*did you mean 'features'\?$")

    def test_misspelt_key(self) -> None:
        self.fault("description", "descripton", r".*no 'descripton'.*did you mean 'description'\?$")

    def test_all_faults_at_once(self) -> None:
        self.replace("port.toml", "description", "descripton")
        self.add("port.toml", "\ncq_wiat = true\n", "[features]")
        self.replace("port.toml", "contract = 5", "contract = true")
        self.assertEqual(len(self.found()), 3)

    def test_misspelt_feature(self) -> None:
        self.add("port.toml", "\ncq_wiat = true", "[features]")
        self.expect(f"port.toml:{self.line('port.toml', 'cq_wiat')}: error: there is no feature"
                    r" 'cq_wiat'; .*did you mean 'cq_wait'\?$")

    def test_name(self) -> None:
        (self.folder / "meson.build").write_text("port = 'mem'\n")
        self.expect(r"port.toml:4: error: the name is 'memory', but the port is built as 'mem'$")

    def test_namespace(self) -> None:
        for name in ("port.hpp", "port.cpp"):
            self.replace(name, "namespace dapl::memory", "namespace dapl::copied")
        self.expect(r"port.cpp:\d+: error: the namespace is dapl::copied, .*call it dapl::memory$")

    def test_version(self) -> None:
        self.fault("contract = 5", "contract = 2", "the port was written for version 2 of the"
                   " contract, which is at 5: dapl-port upgrade says what to adapt")

    def test_version_in_the_code(self) -> None:
        self.replace("port.hpp", "DAPLS_IB_VERSION == 5", "DAPLS_IB_VERSION == 2")
        self.expect(f"port.hpp:{self.line('port.hpp', 'DAPLS_IB_VERSION')}: error: asserts version"
                    " 2 of the contract, which is at 5: see its change log")

    def test_unknown_promise(self) -> None:
        self.add("port.toml", "\n[promises]\nfinal_byte_lst = true\n", "lockless_dequeue = true\n")
        self.expect(f"port.toml:{self.line('port.toml', 'final_byte_lst')}: error: the suite knows"
                    r" no promise 'final_byte_lst'; .*did you mean 'final_byte_last'\?$")

    def test_promise_that_is_no_truth(self) -> None:
        self.add("port.toml", "\n[promises]\nacknowledged = 1\n", "lockless_dequeue = true\n")
        self.expect(r"port.toml:\d+: error: promise 'acknowledged' shall be true or false$")

    def test_no_adapters(self) -> None:
        self.replace("port.toml", 'memory-lo = "lo"\n', "")
        self.replace("port.toml", '[waivers]\nmemory-lo = "waivers.json"\n', "")
        (self.folder / "waivers.json").unlink()
        self.card.write_text(json.dumps({**CARD, "adapter": "memory-lo"}))
        self.assertRegex(self.found()[0], r"^port.toml:\d+: error: \[adapters\] is empty")

    def test_promises_are_those_of_the_suite(self) -> None:
        text = (ROOT / "conformance/main.cpp").read_text()
        options = re.search(r'"--promise", [\w.]+,\s*\{(.*?)\}', text, re.S)
        self.assertEqual(sorted(re.findall(r'"(\w+)"', options[1])), sorted(port_toml.PROMISES))

    def test_what_the_suite_is_told(self) -> None:
        told = run(sys.executable, ROOT / "gen/suite_options.py",
                   ROOT / "transports/libfabric/port.toml", "ofi-lo")
        self.assertEqual(told.stdout.split(), ["--promise", "final_byte_last"])
        told = run(sys.executable, ROOT / "gen/suite_options.py",
                   ROOT / "transports/verbs/port.toml", "verbs-rxe0")
        self.assertEqual(told.stdout.split(),
                         ["--waivers", str(ROOT / "transports/verbs/waivers-rxe0.json")])


class Operations(WithPort):
    CLASS = "static constexpr features claims = port_features;"

    def claim(self, feature: str) -> int:
        self.add("port.toml", f"\n{feature} = true", "[features]")
        return self.line("port.toml", f"{feature} = true")

    def declare(self, text: str) -> None:
        found = re.search(r"static constexpr features claims[^\n]*\n",
                          (self.folder / "port.hpp").read_text())
        self.add("port.hpp", text, found[0])

    def test_claimed_and_written(self) -> None:
        self.claim("cq_wait")
        self.declare(WRITTEN + WAKEUP)
        self.assertEqual(self.found(), [])

    def test_claimed_but_missing(self) -> None:
        line = self.claim("cq_wait")
        self.declare(WAKEUP)
        self.expect(f"port.toml:{line}: error: cq_wait is claimed, but the port has no"
                    " dapls_ib_cq_wait of its own .*write it, or say cq_wait = false$")

    def test_claimed_but_inherited(self) -> None:
        """A `using` and a call are no operation of the port's own."""
        line = self.claim("cq_wait")
        self.declare("    using dapls_ib<types>::dapls_ib_cq_wait;\n" + WAKEUP)
        self.add("port.cpp", "\n[[maybe_unused]] static void sleep_in(transport::cq &c)\n"
                             "{\n    transport::dapls_ib_cq_wait(c, {}, 1, {});\n}\n",
                 "namespace dapl::memory {\n")
        self.expect(f"port.toml:{line}: error: cq_wait is claimed, but the port has no"
                    " dapls_ib_cq_wait")

    def test_claimed_but_in_a_comment(self) -> None:
        line = self.claim("cq_wait")
        self.declare("    // " + WRITTEN.strip() + "\n" + WAKEUP)
        self.expect(f"port.toml:{line}: error: cq_wait is claimed, but the port has no")

    def test_claimed_but_a_skeleton(self) -> None:
        self.claim("cq_wait")
        self.declare("    // TODO(port) 7 dapls_ib_cq_wait: sleep on a CQ\n" + WRITTEN + WAKEUP)
        self.expect(f"port.hpp:{self.line('port.hpp', 'TODO(port)')}: error: cq_wait is claimed, but"
                    " dapls_ib_cq_wait is still to be written: write it, or say cq_wait = false")

    def test_written_but_not_claimed(self) -> None:
        self.declare(WAKEUP)
        self.expect(f"port.hpp:{self.line('port.hpp', WAKEUP)}: warning: dapls_ib_cq_wakeup is"
                    " written, but nothing that needs it is claimed, .*say cq_wait = true")

    def test_claimed_without_what_it_needs(self) -> None:
        line = self.claim("cq_threshold")
        self.expect(f"port.toml:{line}: error: cq_threshold needs cq_wait, which is not claimed")

    def test_required_but_missing(self) -> None:
        self.replace("port.hpp", "dapls_ib_close_hca(", "dapls_ib_closehca(")
        found = self.found()
        self.assertEqual(len(found), 2, found)
        self.assertRegex(found[0], r"^port.toml:3: error: the port has no dapls_ib_close_hca, which")
        self.assertRegex(found[1], r"^port.hpp:\d+: error: the contract has no dapls_ib_closehca, .*"
                                   r"did you mean 'dapls_ib_close_hca'\?$")

    def test_claims_that_do_not_count(self) -> None:
        text = (self.folder / "port.hpp").read_text()
        (self.folder / "port.hpp").write_text(re.sub(r"claims[ ={]+port_features[^;]*", "claims{}",
                                                     text))
        self.expect("port.hpp: error: transport does not take what port.toml claims: add static")


class Stubs(unittest.TestCase):
    """TODO lines that are gone while the code below them has not changed."""

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name) / "acme"

    def begin(self, style: str, *options: str) -> None:
        """A new port, without any of its TODO lines."""
        shutil.rmtree(self.folder, ignore_errors=True)
        done = dapl_port(ROOT, "new", "acme", "--style", style, *options, "--directory", self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        for path in self.folder.glob("*.?pp"):
            self.edit(path.name, r" *// TODO\(port\) \d+ .*\n", "")

    def edit(self, name: str, pattern: str, by: str) -> None:
        path = self.folder / name
        text = re.sub(pattern, by, path.read_text())
        path.write_text(text)

    def found(self) -> dict[str, str]:
        """What is said about each place; all of it where it stands."""
        verdict = port_check.judge(KIT, self.folder, port_check.Given())
        told = {}
        for each in verdict.findings:
            name = each.cause.partition(" is still as dapl-port wrote it")[0]
            line = each.path.read_text().split("\n")[each.line - 1]
            self.assertRegex(line, rf"\b{name.partition('_')[2]}\(|\b{name}\(", each)
            told[name] = each.severity
        return told

    def test_every_function_of_every_style(self) -> None:
        every = tuple(KIT.header.features)
        options = ("--cm", "own", "--keys", "table", "--claims", ",".join(every))
        for style, more, answers in (*((style, (), {}) for style in skeleton.STYLES), (
                "bare", options, {"cm": "own", "keys": "table", "claims": every})):
            with self.subTest(style=style, more=more):
                self.begin(style, *more)
                port = skeleton.Port("acme", "Acme", "LicenseRef-Acme", style=style, **answers)
                self.assertEqual({*self.found()}, {
                    name for name in skeleton.places(KIT, port)
                    if name not in ("device", "wide_key") and not name.endswith("_objects")})

    def test_a_function_that_refuses_is_an_error(self) -> None:
        self.begin("verbs-like")
        told = self.found()
        self.assertEqual((told["verbs_create_pair"], told["verbs_free_domain"]), ("error", "warning"))
        self.begin("sim")
        self.assertEqual({*self.found().values()}, {"warning"})

    def test_changed_functions_are_written(self) -> None:
        self.begin("bare")
        before = self.found()
        self.edit("qp.cpp", "return not_supported; // the device makes its queue pair here", "return success;")
        self.edit("cm.cpp", r"(?s)is_drained\(tcp_connection &\)\n\{", r"\g<0>\n    // nothing is posted")
        left = self.found()
        self.assertEqual({*before} - {*left}, {"dapls_ib_qp_alloc", "is_drained"})
        self.edit("qp.cpp", r"\bstatus transport::dapls_ib_qp_reset\(qp &q\)\n",
                  "status  transport::dapls_ib_qp_reset(qp &q)\n\n")  # formatted otherwise
        self.assertEqual({*self.found()}, {*left})

    def test_open_places_are_no_mistakes(self) -> None:
        done = dapl_port(ROOT, "new", "acme", "--directory", self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.found(), {})


class Waivers(WithPort):
    def waive(self, *entries: object) -> None:
        (self.folder / "waivers.json").write_text(json.dumps(list(entries), indent=1))

    def changed(self, **changes: object) -> dict:
        return {key: value for key, value in {**WAIVER, **changes}.items() if value is not None}

    def test_no_such_case(self) -> None:
        self.waive(WAIVER, self.changed(case="EVD-999"))
        self.expect("waivers.json:9: error: the suite has no case 'EVD-999': dapl-conformance --list")

    def test_past_its_date(self) -> None:
        self.waive(self.changed(until="2026-07-01"))
        self.assertEqual(self.found(), [])  # the last day counts
        self.waive(self.changed(until="2026-06-30"))
        self.expect("waivers.json:2: error: the waiver of EVD-01 ended on 2026-06-30: mend the port")

    def test_no_date(self) -> None:
        for date in ("tomorrow", "2026-13-01", "2026-02-30", "20261231"):
            self.waive(self.changed(until=date))
            self.expect(f"waivers.json:2: error: \"until\" shall be a date .*'{date}' is none")

    def test_kernels(self) -> None:
        for kernels in ("<7", ">=6.1", ">=6.1 <7.2.13"):
            self.waive(self.changed(kernel=kernels))
            self.assertEqual(self.found(), [])
        for kernels in ("7", ">6", ">=6.1, <7"):
            self.waive(self.changed(kernel=kernels))
            self.expect(f"waivers.json:2: error: \"kernel\" shall be kernels .*'{kernels}' is none")

    def test_twice(self) -> None:
        self.waive(WAIVER, WAIVER)
        self.expect("waivers.json:9: error: EVD-01 is waived twice, also on line 2: remove one")

    def test_misspelt_member(self) -> None:
        self.waive(self.changed(flakey=True))
        self.expect(r"waivers.json:2: error: a waiver has no 'flakey'; .*did you mean 'flaky'\?$")

    def test_missing_member(self) -> None:
        for member in ("reason", "failure"):
            self.waive(self.changed(**{member: None}))
            self.expect(f'waivers.json:2: error: the waiver has no "{member}"')
        self.waive(self.changed(failure=None, flaky=True))
        self.assertEqual(self.found(), [])

    def test_wrong_type(self) -> None:
        self.waive(self.changed(flaky="yes"))
        self.expect('waivers.json:2: error: "flaky" shall be true or false')
        for failure in ([], ["hangs", ""], 1):
            self.waive(self.changed(failure=failure))
            self.expect('waivers.json:2: error: "failure" shall be text in quotes')
        self.waive(self.changed(failure=["hangs", "crashes"]))
        self.assertEqual(self.found(), [])
        self.waive("EVD-01")
        self.expect("waivers.json:2: error: a waiver is an object")

    def test_no_json(self) -> None:
        (self.folder / "waivers.json").write_text('[\n  {"case": "EVD-01",\n}]\n')
        self.expect(r"waivers.json:[23]: error: this is no JSON: ")
        (self.folder / "waivers.json").write_text("{}")
        self.expect("waivers.json:1: error: waivers are a JSON array")
        # The parser of Python 3.14 goes deeper than those before.
        for text in ("[" * 2_000_000, "1" * 20_000):
            (self.folder / "waivers.json").write_text(text)
            self.expect("waivers.json:1: error: this is no JSON that can be read")
        (self.folder / "waivers.json").write_bytes(b"\xff")
        self.expect("waivers.json:1: error: this is not UTF-8")

    def test_no_file(self) -> None:
        (self.folder / "waivers.json").unlink()
        self.expect(r"port.toml:\d+: error: there is no file waivers.json in ")
        self.replace("port.toml", "waivers.json", "w" * 5000)
        self.expect(r"port.toml:\d+: error: there is no file w+ in ")

    def test_for_no_adapter(self) -> None:
        self.replace("port.toml", 'memory-lo = "waivers.json"', 'memory-l = "waivers.json"')
        self.expect(f"port.toml:{self.line('port.toml', 'memory-l =')}: error: there are waivers for"
                    r" 'memory-l', which is no adapter .*did you mean 'memory-lo'\?$")

    def test_used_by_nobody(self) -> None:
        (self.folder / "waivers-old.json").write_text("[]")
        self.expect("waivers-old.json: warning: no adapter has these waivers")

    def test_cases_by_the_program(self) -> None:
        """What the sources say is what dapl-conformance --list says."""
        program = os.environ.get("DAPL_CONFORMANCE")
        if program is None:
            self.skipTest("DAPL_CONFORMANCE names no dapl-conformance")
        told = run(program, "--list").stdout
        self.assertEqual(sorted(re.findall(r"^(\S+)", told, re.M)),
                         sorted(port_check.known_cases(KIT)))


class DatConf(WithPort):
    def test_adapter_that_it_lacks(self) -> None:
        self.replace("port.toml", 'memory-lo = "lo"', 'memory-lo = "lo"\nmemory-l1 = "l1"')
        self.expect(f"port.toml:{self.line('port.toml', 'memory-l1')}: error: .*dat.conf has no"
                    r" 'memory-l1': build dat.conf anew, with this port; did you mean 'memory-lo'\?$")

    def test_adapter_in_a_comment(self) -> None:
        self.conf.write_text("# " + CONF.replace("\n", "\n# "))
        self.expect(r"port.toml:\d+: error: .*dat.conf has no 'memory-lo'")

    def test_other_parameters(self) -> None:
        self.conf.write_text(CONF.replace('"lo"', '"eth0"'))
        self.expect(r"port.toml:\d+: error: 'memory-lo' has the parameters 'lo' here, 'eth0' in ")

    def test_adapter_of_another_port(self) -> None:
        self.conf.write_text(CONF.replace("libdapl-memory", "libdapl-soft"))
        self.expect(r"port.toml:\d+: error: in .*dat.conf 'memory-lo' is an adapter of"
                    " libdapl-soft.so.2: call this one otherwise")

    def test_no_file(self) -> None:
        self.conf.unlink()
        self.expect(f"{self.conf}: error: No such file")


class Results(WithPort):
    def write(self, **changes: object) -> None:
        self.card.write_text(json.dumps({**CARD, **changes}, indent=1))

    def test_failed_case(self) -> None:
        for outcome in ("failed", "error", "unexpected pass", "unexpected refusal",
                        "unexpected failure"):
            self.write(results=[{"rule": "EVD-01", "outcome": outcome, "reason": "no event"}])
            self.expect(rf"{self.card}:8: error: EVD-01 on memory-lo: {outcome}: no event$")

    def test_feature_that_shows_nothing(self) -> None:
        self.add("port.toml", "\nimmediate_data = true", "[features]")
        self.add("port.hpp", "    static status dapls_ib_post_extended(qp &);\n",
                 "struct transport : dapls_ib<types> {\n")
        self.write(results=[{"rule": "EXT-02", "outcome": "not claimed", "reason": "none",
                             "needs": "immediate_data"}])
        line = self.line("port.toml", "immediate_data")
        self.expect(f"port.toml:{line}: warning: immediate_data is claimed, but in .* each of its 1"
                    ' cases is "not claimed"; EXT-02: none')

    def test_of_another_adapter(self) -> None:
        self.write(adapter="soft-lo")
        self.expect(rf"{self.card}:2: error: these are results of 'soft-lo', which is no adapter")
        self.write(adapter="memory-lo-plain")
        self.assertEqual(self.found(), [])

    def test_that_did_not_open(self) -> None:
        self.write(device={"judged": False, "reason": "no such device"})
        self.expect(rf"{self.card}:4: error: memory-lo was not judged: no such device")

    def test_no_scorecard(self) -> None:
        for text in ("[]", "{}", '{"results": 3}', "{"):
            self.card.write_text(text)
            self.expect(rf"{self.card}:1: error: this is no (scorecard|JSON)")

    def test_capabilities_are_features(self) -> None:
        features = {each for some in scorecard.CAPABILITIES.values() for each in some}
        self.assertLessEqual(features, set(KIT.header.features))
        words = {word for path in (ROOT / "conformance/cases").glob("*.cpp")
                 for found in re.findall(r'needs\("([^"]*)"\)', path.read_text())
                 for word in found.split()}
        self.assertLessEqual(set(scorecard.CAPABILITIES), words)


class Program(unittest.TestCase):
    """The command itself, in a tree and with a kit that is installed."""

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.tree = copy_tree(self.folder / "kit/share/dapl/kit", KIT_PARTS)

    def check(self, *arguments: object, status: int) -> str:
        done = dapl_port(self.tree, "check", *arguments)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done.stdout + done.stderr

    def test_in_the_tree(self) -> None:
        self.assertEqual(dapl_port(self.tree, "new", "acme").returncode, 0)
        before = contents(self.tree)
        told = self.check("acme", status=0)
        self.assertIn("acme: not judged: whether dat.conf has the adapters", told)
        self.assertIn("acme: no errors, no warnings", told)
        self.assertEqual(contents(self.tree), before)
        profile = self.tree / "transports/acme/port.toml"
        profile.write_text(profile.read_text().replace("cq_wait =", "cq_wiat ="))
        told = self.check("acme", status=1)
        self.assertRegex(told, r"(?m)^transports/acme/port.toml:\d+: error: there is no feature")
        self.assertIn("acme: 1 error, no warnings", told)
        told = json.loads(self.check("acme", "--json", status=1))
        self.assertEqual((told["name"], told["errors"], told["warnings"]), ("acme", 1, 0))
        finding = told["findings"][0]
        self.assertEqual((finding["file"], finding["severity"]),
                         ("transports/acme/port.toml", "error"))
        self.assertIn("cq_wiat", profile.read_text().split("\n")[finding["line"] - 1])

    def test_not_in_the_list(self) -> None:
        self.assertEqual(dapl_port(self.tree, "new", "acme").returncode, 0)
        path = self.tree / "transports/meson.build"
        path.write_text(path.read_text().replace("  'acme',\n", ""))
        self.assertIn("transports/meson.build: error: 'acme' is not in the list of ports",
                      self.check("acme", status=1))

    def test_folder_of_another_name(self) -> None:
        self.assertEqual(dapl_port(self.tree, "new", "acme").returncode, 0)
        (self.tree / "transports/acme").rename(self.tree / "transports/apex")
        told = self.check("apex", status=1)
        self.assertRegex(told, r"port.toml:4: error: the name is 'acme', but the port is built as"
                               " 'apex'")

    def test_with_an_installed_kit(self) -> None:
        """An installed kit has no sources of the suite; its program lists the cases."""
        port = self.folder / "acme"
        self.assertEqual(dapl_port(self.tree, "new", "acme", "--directory", port).returncode, 0)
        (self.tree / "transports/meson.build").unlink()
        with (port / "port.toml").open("a") as profile:
            profile.write('\n[waivers]\nacme-lo = "waivers.json"\n')
        (port / "waivers.json").write_text(json.dumps([{**WAIVER, "until": "9999-12-31"}]))
        without = self.check("--directory", port, status=0)
        if shutil.which("dapl-conformance") is None:
            self.assertIn("acme: not judged: whether waivers name cases that there are", without)
        suite = self.folder / "kit/bin/dapl-conformance"
        suite.parent.mkdir()
        suite.write_text("#!/bin/sh\n[ \"$*\" = --list ] && echo 'CNO-01     it wakes'\n")
        suite.chmod(0o755)
        self.assertRegex(self.check("--directory", port, status=1),
                         r"/waivers.json:1: error: the suite has no case 'EVD-01'")
        suite.write_text("#!/bin/sh\n[ \"$*\" = --list ] && echo 'EVD-01     it waits [srq]'\n")
        self.check("--directory", port, status=0)
        (port / "build").mkdir()
        conf = CONF.replace("libdapl-memory", "libdapl-acme").replace("memory-lo", "acme-l1")
        (port / "build/dat.conf").write_text(conf)
        self.assertIn("build/dat.conf has no 'acme-lo'", self.check("--directory", port, status=1))
        (port / "build/dat.conf").write_text(CONF)
        self.assertIn("build/dat.conf has nothing of this port",
                      self.check("--directory", port, status=0))

    def test_no_port(self) -> None:
        self.assertIn("there is no port 'nobody'", self.check("nobody", status=1))
        self.assertIn("unrecognized arguments",
                      self.check("soft", "--nothing", status=2))

    def test_ports_of_the_tree(self) -> None:
        conf = self.folder / "dat.conf"
        for name in KIT.ports():
            folder = KIT.transports / name
            made = run(sys.executable, ROOT / "gen/dat_conf.py", "--output", conf, "--port",
                       folder / "port.toml", f"/lib/libdapl-{name}.so.2", "")
            self.assertEqual(made.returncode, 0, made.stderr)
            verdict = port_check.judge(KIT, folder, port_check.Given(conf))
            self.assertEqual((verdict.findings, verdict.not_judged), ([], []), name)


if __name__ == "__main__":
    unittest.main()
