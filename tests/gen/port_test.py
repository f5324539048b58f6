#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""dapl-port without a build: what it writes, what it refuses, what it tells."""

import difflib
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest
from collections.abc import Iterator

sys.dont_write_bytecode = True

from trees import (KIT_PARTS, MESON, ROOT, contents, copy_tree, dapl_port, run,  # noqa: E402
                   run_here)

sys.path.insert(0, str(ROOT / "gen"))
import contract_check  # noqa: E402
import port_lock  # noqa: E402
import port_status  # noqa: E402
import port_toml  # noqa: E402
import skeleton  # noqa: E402

TOYS = pathlib.Path(__file__).parent

BAD_NAMES = {  # names, each with a part of the answer
    "Acme": "lower-case", "ACME": "lower-case", "acme-2": "lower-case", "2acme": "begin with",
    "": "lower-case", "acme.x": "lower-case", "../acme": "lower-case", "acme/x": "lower-case",
    "acmé": "lower-case", "acme net": "lower-case", "_acme": "begin with",
    "acme_": "underscores", "ac__me": "underscores", "a" * 33: "33 characters",
    "class": "word of C++", "co_await": "word of C++", "template": "word of C++",
    "auto": "word of C++", "osd": "reserved", "common": "reserved", "std": "reserved",
    "contract": "reserved", "linux": "reserved", "con": "reserved", "am": "reserved",
}


class WithTree(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.tree = copy_tree(pathlib.Path(temporary.name) / "tree", KIT_PARTS)
        self.before = contents(self.tree)

    def port(self, *arguments: object) -> str:
        done = dapl_port(self.tree, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refused(self, *arguments: object) -> str:
        """A refusal is one line without a trace, and changes nothing."""
        done = dapl_port(self.tree, *arguments)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(contents(self.tree), self.before)
        self.assertEqual([path for path in self.tree.rglob(".*")], [])
        return done.stderr


class New(WithTree):
    def test_one_folder_and_one_line(self) -> None:
        self.port("new", "acme", "--vendor", "Acme Networks")
        after = contents(self.tree)
        changed = [name for name, text in self.before.items() if after[name] != text]
        added = [name for name in after if name not in self.before]
        self.assertEqual(changed, ["transports/meson.build"])
        lines = list(difflib.ndiff(self.before[changed[0]].splitlines(),
                                   after[changed[0]].splitlines()))
        self.assertEqual([line for line in lines if line[0] != " "], ["+   'acme',"])
        self.assertEqual({str(pathlib.PurePath(name).parent) for name in added},
                         {"transports/acme"})
        self.assertEqual([path for path in self.tree.rglob(".*")], [])

    def test_list_stays_sorted(self) -> None:
        for name in ("zebra", "acme", "libfabric2", "m"):
            self.port("new", name)
        names = [line.split()[0] for line in self.port("list").splitlines()]
        self.assertEqual(names, sorted(names))
        self.assertLessEqual({"zebra", "acme", "libfabric", "libfabric2", "m"}, set(names))

    def test_every_file_says_whose_it_is(self) -> None:
        self.port("new", "acme_x", "--vendor", "Acme Networks")
        self.port("new", "acme_y", "--licence", "GPL-2.0-only OR BSD-2-Clause")
        for name, licence in {"acme_x": "LicenseRef-Acme-x",
                              "acme_y": "GPL-2.0-only OR BSD-2-Clause"}.items():
            for path in (self.tree / "transports" / name).iterdir():
                lines = path.read_text().splitlines()
                self.assertIn(f"SPDX-License-Identifier: {licence}", lines[0], path)
                self.assertNotIn("SPDX", "".join(lines[1:]).replace(licence, ""), path)

    def test_lines_are_short(self) -> None:
        features = ",".join(self.features())
        self.port("new", "a" * 32, "--claims", features)
        for path in (self.tree / "transports" / ("a" * 32)).glob("*.?pp"):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if "SPDX" not in line and "a" * 32 not in line:
                    self.assertLessEqual(len(line), 100, f"{path.name}:{number}")

    def features(self) -> dict[str, bool]:
        return json.loads(self.port("status", "libfabric", "--json"))["features"]

    def test_claims(self) -> None:
        self.port("new", "acme", "--claims", "cq_wait")
        told = json.loads(self.port("status", "acme", "--json"))
        self.assertEqual([name for name, on in told["features"].items() if on], ["cq_wait"])
        self.assertEqual(told["operations"]["dapls_ib_cq_wait"]["state"], "skeleton")
        self.assertIn("there is no feature 'naps'; there are: srq",
                      dapl_port(self.tree, "new", "b", "--claims", "naps").stderr)

    def test_connection_manager_and_keys(self) -> None:
        self.port("new", "acme")
        self.port("new", "acme_x", "--cm", "own", "--keys", "table")
        for name, cm, keys in (("acme", "tcp", "device"), ("acme_x", "own", "table")):
            text = contents(self.tree / "transports" / name)
            self.assertEqual("tcp_cm" in text["cm.cpp"], cm == "tcp")
            self.assertEqual("key_table" in text["port.hpp"], keys == "table")
        self.before = contents(self.tree)
        self.assertIn("invalid choice: 'rdma'", self.refused("new", "b", "--cm", "rdma"))
        self.assertIn("invalid choice: 'wide'", self.refused("new", "b", "--keys", "wide"))

    def test_dry_run_writes_nothing(self) -> None:
        told = self.port("new", "acme", "--dry-run")
        self.assertIn("port.hpp", told)
        self.assertIn("+  'acme',", told)
        self.assertEqual(contents(self.tree), self.before)

    def test_bad_names(self) -> None:
        for name, answer in BAD_NAMES.items():
            with self.subTest(name=name), self.assertRaisesRegex(skeleton.PortError, answer):
                skeleton.check_name(name)
        for name in ("Acme", "../acme", "class"):
            self.assertIn(BAD_NAMES[name], self.refused("new", "--", name))

    def test_bad_vendors(self) -> None:
        for vendor in ("a\nb", 'a "b"', "a\\", "a */ b", " ", "a|b"):
            with self.subTest(vendor=vendor), self.assertRaisesRegex(skeleton.PortError, "vendor"):
                skeleton.check_text("vendor", vendor)
        self.assertIn("vendor", self.refused("new", "acme", "--vendor", "a\nb"))

    def test_folder_that_is_there(self) -> None:
        (self.tree / "transports/acme").mkdir()
        (self.tree / "transports/acme/precious").write_text("mine\n")
        self.before = contents(self.tree)
        self.assertIn("there is a folder", self.refused("new", "acme"))

    def test_port_that_is_there(self) -> None:
        self.port("new", "acme")
        self.before = contents(self.tree)
        for name in ("acme", "libfabric"):
            self.assertIn(f"there is a port '{name}' already", self.refused("new", name))

    def test_no_kit(self) -> None:
        with tempfile.TemporaryDirectory() as empty:
            self.assertIn("is no port kit", self.refused("new", "acme", "--kit", empty))
            self.assertIn("there is no folder", self.refused("new", "acme", "--kit", empty + "/x"))

    def test_kit_from_elsewhere(self) -> None:
        with tempfile.TemporaryDirectory() as empty:
            done = run(sys.executable, self.tree / "gen/dapl-port", "new", "acme",
                       cwd=pathlib.Path(empty))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(os.listdir(empty), [])
        self.assertTrue((self.tree / "transports/acme/port.hpp").exists())

    def test_no_list(self) -> None:
        (self.tree / "transports/meson.build").write_text("ports = ['libfabric']\n")
        self.before = contents(self.tree)
        self.assertIn("no list 'ports = ['", self.refused("new", "acme"))

    def test_broken_template(self) -> None:
        template = self.tree / "transports/template/hca.cpp.j2"
        template.write_text(template.read_text() + "/*{ nothing }*/\n")
        self.before = contents(self.tree)
        self.assertIn("hca.cpp.j2", self.refused("new", "acme"))

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_folder_without_permission(self) -> None:
        self.tree.joinpath("transports").chmod(0o555)
        self.assertIn("Permission denied", self.refused("new", "acme"))
        self.tree.joinpath("transports").chmod(0o755)

    def test_line_that_cannot_be_added(self) -> None:
        """Whichever step fails last, nothing is left of earlier steps."""
        sabotage = ("import sys; sys.path.insert(0, 'gen'); import skeleton, runpy\n"
                    "def fail(*_): raise OSError(28, 'No space left on device', 'there')\n"
                    "skeleton.replace_text = fail\n"
                    "sys.argv = ['dapl-port', 'new', 'acme']\n"
                    "runpy.run_path('gen/dapl-port', run_name='__main__')\n")
        done = run(sys.executable, "-c", sabotage, cwd=self.tree)
        self.assertEqual(done.returncode, 1)
        self.assertIn("there: No space left on device", done.stderr)
        self.assertEqual(contents(self.tree), self.before)
        self.assertFalse((self.tree / "transports/acme").exists())

    def test_version(self) -> None:
        done = dapl_port(self.tree, "--version")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^dapl-port, version \d+ of the contract, from /")
        shutil.rmtree(self.tree / "transports/template")
        self.assertRegex(dapl_port(self.tree, "--version").stderr, r"^dapl-port: .* is no port kit")

    def test_help(self) -> None:
        self.assertIn("dapl-port new acme", self.port("--help"))
        for command in ("new", "status", "list"):
            self.assertIn("--kit", self.port(command, "--help"))
        self.assertNotEqual(dapl_port(self.tree).returncode, 0)


KIT = skeleton.Kit(ROOT)
ALL = tuple(KIT.header.features)
KINDS = [(cm, keys) for cm in ("tcp", "own") for keys in ("device", "table")]


class Kinds(unittest.TestCase):
    """What a device lacks, the skeleton takes from the port runtime."""

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.kit = skeleton.Kit(ROOT)

    def files(self, cm: str, keys: str, claims: tuple[str, ...] = (),
              name: str = "acme") -> dict[str, str]:
        """The files of a port, which are then in the folder."""
        port = skeleton.Port(name, "Acme Networks", "LicenseRef-Acme", claims, cm, keys)
        files = skeleton.files_of(self.kit, port)
        for file, text in files.items():
            (self.folder / file).write_text(text)
        return files

    def status(self) -> port_status.Status:
        return port_status.read_status(self.kit, self.folder)

    def replace(self, pattern: str, by: str) -> None:
        for path in self.folder.glob("*.?pp"):
            path.write_text(re.sub(pattern, by, path.read_text()))

    def test_places_are_numbered_in_the_order_of_work(self) -> None:
        for cm, keys in KINDS:
            with self.subTest(cm=cm, keys=keys):
                marks = re.findall(r"TODO\(port\) (\d+) (\w+): \w",
                                   "\n".join(self.files(cm, keys).values()))
                numbers = sorted(int(number) for number, _ in marks)
                self.assertEqual(numbers, list(range(1, len(marks) + 1)))
                found = self.status()
                self.assertEqual(found.marked, {name: int(number) for number, name in marks})
                rows = re.findall(r"skeleton +\w+ +\S+ +place (\d+)",
                                  port_status.as_text(self.kit, found))
                self.assertEqual([int(number) for number in rows], numbers)

    def test_every_place_says_what_to_do_and_where_to_read_on(self) -> None:
        guide = (ROOT / "docs/porting.md").read_text()
        for cm, keys in KINDS:
            for name, text in self.files(cm, keys, ALL).items():
                for comment in re.findall(r"(?m)^ *// TODO\(port\) \d.*\n(?: *//.*\n)+", text):
                    said = " ".join(comment.replace("//", " ").split())
                    heading = re.search(r"[Ss]ee porting\.md, ([A-Z][a-z A-Z]*)[.]", said)
                    self.assertIsNotNone(heading, (name, said))
                    self.assertRegex(guide, rf"(?m)^#+ {heading[1]}$", said)

    def test_what_is_no_place_is_written(self) -> None:
        """An operation that says "not supported" is one to be filled in."""
        for cm, keys in KINDS:
            text = "\n".join(self.files(cm, keys).values())
            written = [name for name, state in self.status().states.items() if state == "written"]
            for name in written:
                body = re.search(rf"transport::{name}\([^;]*?\n{{\n.*?\n}}\n", text, re.S)
                self.assertIsNotNone(body, name)
                self.assertNotRegex(body[0], r"\n    return not_supported", name)
            self.assertEqual(len(written), {"tcp": 7, "own": 3}[cm])

    def test_the_runtime_is_used(self) -> None:
        for cm, keys in KINDS:
            with self.subTest(cm=cm, keys=keys):
                text = "\n".join(self.files(cm, keys).values())
                self.assertEqual("tcp_cm" in text, cm == "tcp")
                self.assertEqual("key_table" in text, keys == "table")
                for part in ("port_support_sources", "events.start", "ia_params words",
                             "interface.find", "status_of_errno", "named_attributes",
                             "foreign()", "connect_attempt" if cm == "own" else "cm."):
                    self.assertIn(part, text)

    @unittest.skipUnless(shutil.which("clang-format"), "there is no clang-format")
    def test_formatted(self) -> None:
        style = f"--style=file:{ROOT / '.clang-format'}"
        for cm, keys in KINDS:
            for claims in ((), ALL):
                files = self.files(cm, keys, claims, "zebra_networks")
                paths = [self.folder / name for name in files if name.endswith("pp")]
                done = run("clang-format", style, "--dry-run", "--Werror", *paths)
                self.assertEqual(done.stderr, "", (cm, keys, claims))

    def test_calls_beside_the_operations_are_still_to_be_written(self) -> None:
        self.files("tcp", "device")
        self.replace(r"TODO\(port\) \d+ (?!bring_up)", "")
        found = self.status()
        self.assertEqual((found.count("skeleton"), found.open_calls(self.kit)), (0, ["bring_up"]))
        self.assertIn("To be written: bring_up. To try it: ", found.next_step)

    def test_written_and_not_claimed(self) -> None:
        self.files("tcp", "device", ("cq_resize",))
        self.replace(r"TODO\(port\) \d+ ", "")
        profile = self.folder / "port.toml"
        profile.write_text(profile.read_text().replace("cq_resize = true", "cq_resize = false"))
        self.assertTrue(self.status().next_step.startswith(
            "dapls_ib_cq_resize: written, but not claimed"), self.status().next_step)


class OfAStyle:
    """A whole port, and functions that stand for its device. A style gives its name, its layer's,
    the state of the functions, and those that no operation stands for."""

    style: str
    layer: str
    state = "skeleton"
    helpers: tuple[str, ...] = ()

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.kit = skeleton.Kit(ROOT)
        self.write("acme", self.folder)

    def write(self, name: str, folder: pathlib.Path) -> None:
        port = skeleton.Port(name, "Acme Networks", "LicenseRef-Acme", style=self.style)
        for file, text in skeleton.files_of(self.kit, port).items():
            (folder / file).write_text(text)

    def code(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in sorted(self.folder.glob("*.?pp"))}

    def status(self) -> port_status.Status:
        return port_status.read_status(self.kit, self.folder)

    def test_places(self) -> None:
        """Each function of the layer is one, says what judges it, and they are all there are."""
        found, text, layer = self.status(), "\n".join(self.code().values()), self.layer
        guide = (ROOT / "docs/porting.md").read_text()
        self.assertEqual({*found.states.values()}, {"written", "unclaimed"})
        functions = re.findall(r"(?m)^(?: {4})?\w+ (\w+)\(",
                               self.code()[f"acme_{layer}.hpp"].split("-- functions\n")[1])
        self.assertEqual({*found.marked},
                         {f"{layer}_objects", *(f"{layer}_{each}" for each in functions)})
        self.assertEqual({*found.open_calls(self.kit)}, {*found.marked})
        self.assertEqual({*found.simulated(self.kit)},
                         {*found.marked} if self.state == "simulated" else set())
        for name in functions:
            comment = re.search(rf"(?m)^// TODO\(port\) \d+ {layer}_{name}: .*\n((?:// .*\n)+)"
                                rf"\w+ (?:{layer}::)?{name}\(", text)
            self.assertIsNotNone(comment, name)
            said = " ".join(comment[1].replace("//", " ").split())
            heading = re.search(r"[Ss]ee porting\.md, ([A-Z][a-z A-Z]*)[.]", said)
            self.assertIsNotNone(heading, said)
            self.assertRegex(guide, rf"(?m)^#+ {heading[1]}$", said)
            if name not in self.helpers:
                self.assertRegex(said, r"Shown by [A-Z]+-\d\d", name)
        rows = re.findall(rf"{self.state} +{layer}_\w+ +acme_{layer}\.[ch]pp +place (\d+)",
                          port_status.as_text(self.kit, found))
        self.assertEqual([int(row) for row in rows], list(range(1, len(found.marked) + 1)))

    def test_a_thin_port(self) -> None:
        lines = [line for text in self.code().values()
                 for line in port_status.without_comments(text).splitlines() if line.strip()]
        self.assertLess(len(lines), 900)

    @unittest.skipUnless(shutil.which("clang-format"), "there is no clang-format")
    def test_formatted(self) -> None:
        """A port is formatted, whatever its name sorts after."""
        self.write("zebra_networks", self.folder)
        done = run("clang-format", f"--style=file:{ROOT / '.clang-format'}", "--dry-run", "--Werror",
                   *self.folder.glob("*.?pp"))
        self.assertEqual(done.stderr, "")


class Simulated(OfAStyle, unittest.TestCase):
    """Style sim: a whole port, and a layer of functions that stand for the device's driver."""

    style = "sim"
    layer = "hw"
    state = "simulated"

    def test_features_in_the_order_of_their_worth(self) -> None:
        """The next few, and none that needs another first."""
        guide = (ROOT / "docs/porting.md").read_text()
        for name in self.kit.header.features:  # the guide says when to claim it, and what it takes
            self.assertEqual(len(re.findall(rf"(?m)^\|[^|]*`{name}`[^|]*\|", guide)), 2, name)
        for name in self.kit.header.judged:  # each has cases there
            self.assertRegex(guide, rf"(?m)^\|[^|]*`{name}`[^|]*\|[^|]*\|[^|]*[A-Z]+-(\d\d|\\\*)")
        claims = dict.fromkeys(self.kit.header.features, False)
        for claimed, judged, faster in (
                ((), "srq, memory_windows, immediate_data", "direct_event, cq_wait, cq_count"),
                (("srq", "memory_windows", "cq_wait", "immediate_data", "atomics"),
                 "send_invalidate, ep_watermarks, cq_resize", "direct_event, cq_threshold, cq_count"),
                (self.kit.header.judged, "", "direct_event, cq_wait, cq_count")):
            said = port_status.suggestion(self.kit, claims | dict.fromkeys(claimed, True))
            self.assertIn(f"{judged}, which cases judge; " if judged else "next: direct", said)
            self.assertIn(f"{faster}, which save time only. ", said)

    def test_a_place_that_has_been_moved(self) -> None:
        for path in self.folder.glob("acme_hw.?pp"):
            path.write_text(re.sub(r"// TODO\(port\) \d+ (?!hw_connect).*\n", "", path.read_text()))
        self.assertEqual(self.status().simulated(self.kit), ["hw_connect"])
        self.assertIn("to be moved to the driver: hw_connect. To try it: ", self.status().next_step)
        source = self.folder / "acme_hw.cpp"
        source.write_text(re.sub(r"// TODO\(port\).*\n", "", source.read_text()))
        self.assertIn("All that is claimed is written", self.status().next_step)
        self.assertIn("acme: 23 of 23 operations written\n",
                      port_status.as_text(self.kit, self.status()))

    def test_the_layer_alone_knows_the_device(self) -> None:
        for name, text in self.code().items():
            self.assertEqual("soft_hca" in text, name.startswith("acme_hw"), name)

    def test_a_project_of_its_own(self) -> None:
        """It is compiled with the sources of the engine, of one system."""
        port = skeleton.Port("acme", "Acme", "LicenseRef-Acme", style="sim")
        files = skeleton.files_of(self.kit, port, alone=True)
        self.assertIn("'--soft-engine'", files["meson.build"])
        self.assertIn("'acme_hw.cpp'", files["meson.build"])
        engine, plain = (set(run(sys.executable, ROOT / "gen/kit_sources.py", "--os", "linux",
                                 *options).stdout.split()) for options in (("--soft-engine",), ()))
        listed = (ROOT / "transports/soft/engine/meson.build").read_text()
        built = (*re.findall(r"^  '\w+/(\w+\.cpp)'", listed, re.MULTILINE),
                 *(f"{stem}linux.cpp" for stem in re.findall(r"'net/(\w+_)' \+ osd_dir", listed)))
        self.assertIn("net_local_linux.cpp", built)
        self.assertEqual({pathlib.Path(path).name for path in engine - plain}, {*built})


class Layered(OfAStyle):
    """A whole port on the port runtime, and functions of a library to be written. A style gives the
    toy of the whole suite, functions that post, and names that the layer must not know."""

    toy: pathlib.Path
    posts: tuple[str, ...] = ("post",)
    runtime: tuple[str, ...]

    def test_status_names_the_next(self) -> None:
        layer = self.layer
        self.assertIn(f"To be written: {layer}_objects, {layer}_open", self.status().next_step)
        for path in self.folder.glob("*.?pp"):
            path.write_text(re.sub(rf"// TODO\(port\) \d+ (?!{layer}_(?:{'|'.join(self.posts)}):).*\n",
                                   "", path.read_text()))
        left = ", ".join(f"{layer}_{each}" for each in self.posts)
        self.assertIn(f"To be written: {left}. To try it: ", self.status().next_step)

    def test_the_layer_alone_knows_the_library(self) -> None:
        """The layer alone knows the library, and the port alone the runtime."""
        for name, text in self.code().items():
            layer = name.startswith(f"acme_{self.layer}")
            self.assertEqual(any(word in text for word in (*self.runtime, *self.face())),
                             not layer, name)

    def face(self) -> tuple[str, ...]:
        """Words by which the port names the layer."""
        return (f"{self.layer}::",)

    def test_compiles(self) -> None:
        """A port compiles without a warning: as it is, or with the toy of the whole suite as its
        library.
        """
        features = self.folder / "features.hpp"
        made = run(sys.executable, ROOT / "gen/port_features.py", "--contract",
                   self.kit.header_path, "--profile", self.folder / "port.toml", "--port", "acme",
                   "--output", features)
        self.assertEqual(made.returncode, 0, made.stderr)
        check = self.folder / "dapls_ib_check.hpp"
        check.write_text(contract_check.check(self.kit.header_path))
        shutil.copy(self.toy, self.folder)
        shutil.copy(TOYS / "toy_fabric.hpp", self.folder)
        parts = [name for name in self.code() if name.endswith(".cpp")]
        own = f"acme_{self.layer}.cpp"
        ways = [way for way in ((own, "g++"), (self.toy.name, "clang++", "-Wthread-safety"))
                if shutil.which(way[1]) is not None]
        if not ways:
            self.skipTest("there is no compiler")
        for library, compiler, *more in ways:
            whole = self.folder / "whole.cxx"
            whole.write_text("".join(
                f'#include "{name}"\n' for name in (check, *parts)
                if name not in (own, self.toy.name) or name == library)
                + "template struct dapl::acme::check_transport<dapl::acme::transport>;\n")
            done = run(compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
                       "-fno-exceptions", "-fno-rtti", *more, "-DDAPL_TRANSPORT=acme",
                       f'-DDAPL_PORT_FEATURES="{features}"', *(f"-I{ROOT / each}" for each in (
                           "include", "contract", "osd", "osd/linux", "port_support")),
                       f"-I{self.folder}", whole)
            self.assertEqual(done.stderr, "", f"{compiler}, {library}")

    def test_a_project_of_its_own(self) -> None:
        port = skeleton.Port("acme", "Acme", "LicenseRef-Acme", style=self.style)
        text = skeleton.files_of(self.kit, port, alone=True)["meson.build"]
        self.assertIn("project('dapl-acme'", text)
        self.assertIn(f"'acme_{self.layer}.cpp'", text)
        self.assertNotIn("soft", text)

    def test_a_port_without_a_lock_file(self) -> None:
        """Its style is seen, and that it had no answers for questions of other styles."""
        shutil.rmtree(self.folder / "upgrade", ignore_errors=True)
        port = port_lock.guessed(self.folder).port
        self.assertEqual((port.style, port.cm, port.keys, port.claims),
                         (self.style, "tcp", "device", ()))


class Polled(Layered, unittest.TestCase):
    """A style for a library that moves data only while it is called."""

    style = "polled"
    layer = "lib"
    toy = TOYS / "toy_lib.cpp"
    helpers = ("descriptor",)
    runtime = ("tcp_cm", "connection_service")


class Callback(Layered, unittest.TestCase):
    """A style for a library that reports everything by callbacks."""

    style = "callback"
    layer = "api"
    toy = TOYS / "toy_api.cpp"
    runtime = ("connection_service", "connection_state", "port.hpp")


class VerbsLike(Layered, unittest.TestCase):
    """A style for a library like libibverbs."""

    style = "verbs-like"
    layer = "verbs"
    toy = TOYS / "toy_verbs.cpp"
    posts = ("post_send", "post_receive")
    helpers = ("next_async_event",)
    runtime = ("tcp_cm", "connection_service", "port.hpp")


class Unconnected(Layered, unittest.TestCase):
    """A style for a device that has no connections: a class of its functions."""

    style = "unconnected"
    layer = "device"
    toy = TOYS / "toy_device.cpp"
    posts = ("send", "access", "own_name")
    helpers = ("descriptor",)
    runtime = ("unconnected_port.hpp", "ia_params.hpp")

    def face(self) -> tuple[str, ...]:
        return ()

    def test_what_the_layer_has(self) -> None:
        """It is claimed and promised from the beginning, and no operation is left to be written."""
        profile = port_toml.read(self.folder / "port.toml")
        self.assertEqual({name for name, on in profile.features.items() if on},
                         {"srq", "cq_resize", "immediate_data"})
        found = self.status()
        self.assertEqual({found.states[each] for each in ("dapls_ib_srq_alloc", "dapls_ib_connect")},
                         {"written"})
        self.assertEqual(found.open_calls(self.kit)[-1], "device_own_name")

    def test_a_project_has_the_layer(self) -> None:
        port = skeleton.Port("acme", "Acme", "LicenseRef-Acme", style=self.style)
        text = skeleton.files_of(self.kit, port, alone=True)["meson.build"]
        self.assertIn("'--unconnected'", text)


class NewSimulated(WithTree):
    def test_status(self) -> None:
        self.assertIn("dapl-conformance --ia acme-lo", self.port("new", "acme", "--style", "sim"))
        text = self.port("status", "acme")
        self.assertIn("acme: 23 of 23 operations written, 24 places still simulated", text)
        self.assertIn("next: Still simulated, to be moved to the driver: hw_objects, hw_open", text)
        told = json.loads(self.port("status", "acme", "--json"))
        self.assertEqual(sorted(told["simulated"]), sorted(told["places"]))
        self.assertRegex(self.port("list"), r"(?m)^acme +24 simulated +claims nothing$")

    def test_what_is_for_other_styles(self) -> None:
        simulated = ("new", "b", "--style", "sim")
        self.assertIn("claims nothing at first", self.refused(*simulated, "--claims", "cq_wait"))
        for style in ("sim", "polled", "callback", "verbs-like", "unconnected"):
            for option in (("--cm", "own"), ("--keys", "table")):
                self.assertIn("are for --style bare",
                              self.refused("new", "b", "--style", style, *option))
        for style in ("polled", "callback", "verbs-like"):
            self.assertIn(f"a port of style {style} claims nothing at first",
                          self.refused("new", "b", "--style", style, "--claims", "cq_wait"))
        self.assertIn("claims nothing but what its layer has (cq_resize, srq, immediate_data)",
                      self.refused("new", "b", "--style", "unconnected", "--claims", "cq_wait"))
        self.assertIn("invalid choice: 'lean'", self.refused("new", "b", "--style", "lean"))


class Alone(WithTree):
    def setUp(self) -> None:
        super().setUp()
        self.folder = self.tree.parent / "alone"

    def test_a_folder_of_its_own(self) -> None:
        self.port("new", "acme", "--directory", self.folder)
        self.assertEqual(contents(self.tree), self.before)
        self.assertIn("project(", (self.folder / "meson.build").read_text())
        self.assertEqual(sorted(os.listdir(self.tree.parent)), ["alone", "tree"])
        told = json.loads(self.port("status", "--directory", self.folder, "--json"))
        self.assertEqual(told["name"], "acme")

    def test_commands_inside_it(self) -> None:
        """With its name or without, also in its build folder, where `meson devenv` runs them."""
        self.port("new", "acme", "--directory", self.folder)
        program = self.tree / "gen/dapl-port"
        for build in (self.folder / "build", self.tree.parent / "elsewhere"):
            info = build / "meson-info/meson-info.json"
            info.parent.mkdir(parents=True)
            info.write_text(json.dumps({"directories": {"source": str(self.folder)}}))
            for where, *name in ((self.folder, "acme"), (build, "acme"), (info.parent,)):
                done = run(sys.executable, program, "status", *name, cwd=where)
                self.assertIn("acme: 7 of 23 operations", done.stdout, (where, done.stderr))
        kit = self.installed()
        wrong = run(sys.executable, program, "check", "emca", "--kit", kit, cwd=build)
        self.assertEqual(wrong.stderr,
                         "dapl-port: there is no port 'emca'; there are: acme\n")
        outside = run(sys.executable, program, "status", "acme", "--kit", kit,
                      cwd=self.tree.parent)
        self.assertIn("here: go to its folder, or name that with --directory", outside.stderr)
        info.write_text("[]")
        self.assertIn("elsewhere is no port", run(sys.executable, program, "status",
                                                  cwd=build).stderr)

    def installed(self) -> pathlib.Path:
        """The kit, as it looks when it is installed: without a list of ports."""
        kit = copy_tree(self.tree.parent / "kit", KIT_PARTS)
        (kit / "transports/meson.build").unlink()
        return kit

    def test_without_a_kit(self) -> None:
        """The build says what to name, not only that something is missing."""
        self.port("new", "acme", "--directory", self.folder)
        nothing = self.tree.parent / "nothing"
        done = run(MESON, "setup", "build", cwd=self.folder, PKG_CONFIG_LIBDIR=str(nothing),
                   PKG_CONFIG_PATH="")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("the installed DAPL kit is not found: PKG_CONFIG_PATH", done.stdout)

    def test_an_empty_folder(self) -> None:
        self.folder.mkdir()
        self.port("new", "acme", "--directory", self.folder)
        self.assertTrue((self.folder / "port.hpp").exists())

    def test_a_folder_that_is_not_empty(self) -> None:
        self.folder.mkdir()
        (self.folder / "precious").write_text("mine\n")
        self.assertIn("no empty folder", self.refused("new", "acme", "--directory", self.folder))
        self.assertEqual(os.listdir(self.folder), ["precious"])

    def test_a_folder_nowhere(self) -> None:
        self.assertIn("there is no folder",
                      self.refused("new", "acme", "--directory", self.folder / "x/y"))


class EveryStyle(unittest.TestCase):
    """Texts of new ports that no compiler reads."""

    def ports(self) -> Iterator[tuple[skeleton.Port, dict[str, str]]]:
        for answers in ({}, {"cm": "own", "keys": "table", "claims": ALL},
                        *({"style": style} for style in skeleton.LAYERS)):
            for alone in (False, True):
                port = skeleton.Port("acme", "Acme Networks", "LicenseRef-Acme", **answers)
                yield port, skeleton.files_of(KIT, port, alone)

    def test_nothing_of_a_template_is_left(self) -> None:
        for port, files in self.ports():
            for name, text in files.items():
                with self.subTest(style=port.style, name=name):
                    self.assertRegex(text, r"\A\S+ SPDX-License-Identifier: LicenseRef-Acme\b")
                    self.assertNotRegex(text, r"/\*[{%#]|[}%#]\*/|(?m:[ \t]$)|\n{3}|[^\n]\Z")
                    self.assertIsNone(skeleton.DRAFT.search(text))
                    self.assertEqual(text.count("SPDX"), 1)
            self.assertRegex(files["hca.cpp"], r'\.vendor(_name)? = "Acme Networks";', port)

    def test_the_readme_has_every_place(self) -> None:
        for port, files in self.ports():
            rows = re.findall(r"(?m)^\| (\d+)(?:-(\d+))? \|", files["README.md"])
            numbers = [each for first, last in rows
                       for each in range(int(first), int(last or first) + 1)]
            self.assertEqual(numbers, list(range(1, len(skeleton.places(KIT, port)) + 1)), port)

    def test_operations_have_the_words_of_the_contract(self) -> None:
        for port, files in self.ports():
            said = " ".join(" ".join(files.values()).replace("//", " ").split())
            for each in skeleton.places(KIT, port):
                operation = next((one for one in KIT.operations if one.name == each), None)
                if operation is not None:
                    self.assertIn(" ".join(" ".join(operation.declared.text).split()), said, each)


class Status(WithTree):
    def status(self) -> dict:
        return json.loads(self.port("status", "acme", "--json"))

    def test_a_new_port(self) -> None:
        self.port("new", "acme")
        told = self.status()
        states = {row["state"] for row in told["operations"].values()}
        self.assertEqual(states, {"skeleton", "written", "unclaimed"})
        self.assertFalse(any(told["features"].values()))
        self.assertIn("dapls_ib_open_hca", told["next"])
        self.assertIn("IA-*", told["next"])
        text = self.port("status", "acme")
        self.assertIn("skeleton   dapls_ib_post_send             port.hpp     place 21", text)
        self.assertIn("next: Open the device", text)

    def test_progress(self) -> None:
        self.port("new", "acme")
        hca = self.tree / "transports/acme/hca.cpp"
        hca.write_text(hca.read_text().replace("TODO(port)", "done:"))
        told = self.status()
        self.assertEqual(told["operations"]["dapls_ib_open_hca"]["state"], "written")
        self.assertEqual(told["counts"]["written"], 3 + 7)  # the connection manager writes these
        self.assertIn("To be written: device. ", told["next"])

    def test_missing_operations(self) -> None:
        self.port("new", "acme")
        profile = self.tree / "transports/acme/port.toml"
        profile.write_text(profile.read_text().replace("cq_wait = false", "cq_wait = true"))
        (self.tree / "transports/acme/cm.cpp").unlink()
        header = self.tree / "transports/acme/port.hpp"
        header.write_text(header.read_text().replace("dapls_ib_connect(", "connect("))
        told = self.status()["operations"]
        self.assertEqual(told["dapls_ib_cq_wait"]["state"], "missing")
        self.assertEqual(told["dapls_ib_connect"]["state"], "missing")

    def test_a_written_port(self) -> None:
        told = json.loads(self.port("status", "libfabric", "--json"))
        self.assertEqual((told["counts"]["skeleton"], told["counts"]["missing"]), (0, 0))
        self.assertTrue(told["features"]["cq_wait"])

    def test_a_port_on_a_layer_of_the_runtime(self) -> None:
        copy_tree(self.tree, ("port_support",))
        told = json.loads(self.port("status", "--directory", ROOT / "tests/unconnected_port",
                                    "--json"))
        self.assertEqual((told["counts"]["skeleton"], told["counts"]["missing"]), (0, 0))
        self.assertEqual(told["operations"]["dapls_ib_post_srq_recv"]["state"], "written")
        self.assertEqual(told["operations"]["dapls_ib_cq_wait"]["state"], "unclaimed")

    def test_lines_of_a_port_on_a_layer(self) -> None:
        """By hand, against a device of local sockets that can leave out each promise."""
        written = [line for name in ("port.hpp", "device.cpp") for line in port_status.without_comments(
            (ROOT / "tests/unconnected_port" / name).read_text()).splitlines() if line.strip()]
        self.assertGreater(len(written), 100)
        self.assertLessEqual(len(written), 350)

    def test_from_inside_the_folder(self) -> None:
        self.port("new", "acme")
        done = run(sys.executable, "../../gen/dapl-port", "status",
                   cwd=self.tree / "transports/acme")
        self.assertIn("acme: 7 of 23 operations", done.stdout)

    def test_another_version_of_the_contract(self) -> None:
        self.port("new", "acme")
        profile = self.tree / "transports/acme/port.toml"
        profile.write_text(re.sub(r"contract = \d+", "contract = 0", profile.read_text()))
        self.assertIn("written for version 0 of the contract", self.port("status", "acme"))

    def test_no_such_port(self) -> None:
        self.assertIn("there is no port 'nobody'; there are: ", self.refused("status", "nobody"))
        self.assertIn("is no port: it has no port.toml", self.refused("status"))

    def test_a_reader_that_has_read_enough(self) -> None:
        done = run("bash", "-c", '"$0" "$1" status soft | true',
                   sys.executable, self.tree / "gen/dapl-port", cwd=self.tree)
        self.assertEqual(done.stderr, "")

    def test_list(self) -> None:
        self.port("new", "acme")
        self.assertRegex(self.port("list"), r"(?m)^acme +\d+ to be written +claims nothing$")
        self.assertRegex(self.port("list"), r"(?m)^libfabric +written +claims immediate_data")


class StatusWithResults(WithTree):
    """The suite's result for each group, and its meaning for the next step."""

    def setUp(self) -> None:
        super().setUp()
        self.port("new", "acme", "--claims", "memory_windows")
        self.card = self.tree.parent / "card.json"

    def told(self, *results: tuple[str, ...]) -> dict:
        """The status with cases given by their outcomes, needs, and refused calls."""
        keys = ("rule", "outcome", "needs", "refused_call")
        rows = [{"group": each[0].split("-")[0], **dict(zip(keys, each))} for each in results]
        self.card.write_text(json.dumps({"adapter": "acme-lo", "date": "today", "results": rows}))
        return json.loads(self.port("status", "acme", "--results", self.card, "--json"))

    def write_all(self) -> None:
        for path in (self.tree / "transports/acme").glob("*.?pp"):
            path.write_text(path.read_text().replace("TODO(port)", "done:"))

    def test_groups(self) -> None:
        groups = self.told(("IA-01", "passed", ""), ("IA-02", "waived", ""),
                           ("EVD-01", "passed", ""), ("EVD-02", "not claimed", ""),
                           ("EXT-01", "passed", ""), ("EXT-02", "not claimed", "immediate_data"),
                           ("RMR-01", "passed", ""), ("RMR-02", "not claimed", "rmr_bind"),
                           ("DTO-01", "passed", ""), ("DTO-02", "not claimed", "acknowledged"),
                           ("SRQ-01", "not claimed", "srq"), ("EP-01", "passed", ""),
                           ("EP-02", "error", ""))["suite"]["groups"]
        self.assertEqual([name for name, each in groups.items() if each["green"]],
                         ["IA", "EXT", "DTO"])
        self.assertEqual({name: each["waiting"] for name, each in groups.items()
                          if each["waiting"]}, {"EVD": 1, "RMR": 1})
        self.assertEqual((groups["SRQ"]["not_claimed"], groups["EP"]["failed"]), (1, 1))
        text = self.port("status", "acme", "--results", self.card)
        self.assertIn("\n  the suite on acme-lo, today:\n"
                      "    IA         green: 1 passed, 1 waived\n"
                      "    EVD        1 passed, 1 waiting for operations to be written\n", text)

    def test_what_fails_comes_first(self) -> None:
        told = self.told(("EP-01", "passed", ""), *((f"EP-{i}", "failed", "") for i in range(10, 20)))
        self.assertEqual(told["next"], "10 cases fail: EP-10, EP-11, EP-12, EP-13, EP-14, EP-15,"
                         " EP-16, EP-17 …. To see why: dapl-conformance --ia acme-lo --case EP-10")
        self.assertIn("To be written: device", self.told(("EP-01", "not claimed", ""))["next"])

    def test_a_place_that_only_lost_its_mark(self) -> None:
        connect = ("EP-01", "not claimed", "", "connect")
        self.assertIn("To be written: device", self.told(connect)["next"])
        self.assertIn("\n  connection, and 1 case waits for it\n    skeleton",
                      self.port("status", "acme", "--results", self.card))
        for path in (self.tree / "transports/acme").glob("cm.cpp"):
            path.write_text(path.read_text().replace("TODO(port)", "done:"))
        self.assertEqual(self.told(connect)["next"],
                         "connection: nothing is left to be written, but 1 case says that it is not"
                         " supported. If the results are those of this code, dapl-conformance --ia"
                         " acme-lo tells what refuses.")
        self.assertIn("\n  connection: done, and 1 case waits for it\n",
                      self.port("status", "acme", "--results", self.card))
        self.assertIn("To be written: device", self.told(("EP-01", "passed", ""))["next"])

    def test_results_where_their_user_is(self) -> None:
        """`meson devenv` runs a program in the build folder, and leaves PWD as it was."""
        self.told(("EVD-01", "passed", ""))
        build = self.tree / "build"
        (build / "meson-info").mkdir(parents=True)

        def green(**environment: str) -> bool:
            done = run_here("dapl-port", "status", "acme", "--results", self.card.name, cwd=build,
                            **environment)
            self.assertNotIn("Traceback", done.stderr)
            return "EVD        green: 1 passed" in done.stdout

        user = {"PWD": str(self.card.parent), "MESON_DEVENV": "1"}
        self.assertTrue(green(**user))
        self.assertFalse(green(PWD=user["PWD"]), "outside meson devenv a path is as it is")
        self.card.rename(build / self.card.name)  # the suite, run likewise, has written it there
        self.assertTrue(green(**user))

    def test_results_that_are_none_of_the_port(self) -> None:
        def answer() -> str:
            self.before = contents(self.tree)
            return self.refused("status", "acme", "--results", self.card)

        self.card.write_text('{"adapter": "soft-lo", "results": []}')
        self.assertIn("card.json: these are results of 'soft-lo', which is no adapter of acme", answer())
        self.card.write_text('{"adapter": "acme-lo", "results": [],'
                             ' "device": {"judged": false, "reason": "no library"}}')
        self.assertIn("card.json: acme-lo was not judged: no library", answer())
        self.card.write_text("{")
        self.assertIn("card.json:1: this is no JSON", answer())
        self.card.unlink()
        self.assertIn("card.json: No such file", answer())

    def test_how_many_places_there_are(self) -> None:
        lock = self.tree / "transports/acme" / port_lock.NAME
        total = len(self.told()["places"])
        self.assertIn(f", 0 of {total} places filled in\n", self.port("status", "acme"))
        self.write_all()
        self.assertEqual(self.told()["filled"], total)
        for spoil in (lambda: lock.write_text("format = 1\n"), lock.unlink):
            spoil()  # it is not known any more
            self.assertIsNone(self.told()["filled"])
            self.assertIn("operations written\n", self.port("status", "acme"))


class Profile(WithTree):
    """Every tool that reads a port.toml reports its mistake in one line, and equally."""

    GOOD = ('[port]\nname = "acme"\ncontract = 2\ndescription = "x"\n\n'
            '[features]\ncq_wait = true\n\n[adapters]\nacme-lo = "lo 0"\n')
    FAULTS = (  # text to replace, its replacement, and the answer after "port.toml"
        ("[port]", "[port", r":1: this is no TOML: Expected ']'"),
        ("contract = 2", "contract 2", r":3: this is no TOML: Expected '='"),
        ('"lo 0"\n', '"lo 0', r":10: this is no TOML: "),
        ("contract = 2", "contract = 2\ncontract = 2", r":4: this is no TOML: Cannot overwrite"),
        ('"x"', '"\udce4"', r":4: this is not UTF-8: byte 0xe4"),
        ("[port]\n", "port = 3\n[x]\n", r":1: \[port\] shall be a table"),
        ("[features]\ncq_wait = true", "[x]", r":6: there is no 'x'; there are \[port\], "),
        ("[port]\n", 'features = "cq_wait"\n[port]\n', r":7: this is no TOML: Cannot"),
        ("[features]\ncq_wait = true", "", None),
        ('name = "acme"\n', "", r":1: says no name: \[port\] name = "),
        ('"acme"', "7", r":2: name shall be text in quotes"),
        ('"acme"', '"emca"', r":2: the name is 'emca', but the port is built as 'acme'"),
        ("contract = 2\n", "", r":1: says no contract: "),
        ("contract = 2", 'contract = "2"', r":3: contract shall be a number"),
        ("contract = 2", "contract = true", r":3: contract shall be a number"),
        ('description = "x"', "maker = 1", r":4: \[port\] has no 'maker'; it has name, contract, "),
        ("cq_wait", "naps", r":7: there is no feature 'naps'; there are: srq, "),
        ("true", '"yes"', r":7: feature 'cq_wait' shall be true or false"),
        ('"lo 0"', "0", r":10: the parameters of adapter 'acme-lo' shall be text in quotes"),
        ('"lo 0"', r'"lo\n0"', r":10: the parameters of adapter 'acme-lo' shall be plain text"),
        ("acme-lo", '"acme lo"', r":10: 'acme lo' is no name for an adapter"),
    )
    NOT_FOR_DAT_CONF = ("built as", "no feature")  # dat.conf has adapters only

    def setUp(self) -> None:
        super().setUp()
        self.port("new", "acme")
        self.path = self.tree / "transports/acme/port.toml"
        version = json.loads(self.port("status", "acme", "--json"))["contract"]["kit"]
        self.good = self.GOOD.replace("contract = 2", f"contract = {version}")
        self.version = version

    def write(self, text: str) -> None:
        self.path.write_bytes(text.encode(errors="surrogateescape"))
        self.before = contents(self.tree)

    def tools(self) -> dict[str, tuple[object, ...]]:
        output = ("--output", self.tree.parent / "made")
        return {
            "dapl-port": ("status", "acme"),
            "port_features.py": ("--contract", self.tree / "contract/dapls_ib.hpp", "--profile",
                                 self.path, "--port", "acme", *output),
            "dat_conf.py": ("--port", self.path, "library.so", "", *output),
        }

    def expect(self, answer: str | None) -> None:
        for name, arguments in self.tools().items():
            done = run_here(name, *arguments, cwd=self.tree)
            wanted = answer and not (name == "dat_conf.py"
                                     and any(each in answer for each in self.NOT_FOR_DAT_CONF))
            self.assertEqual(done.returncode != 0, bool(wanted), (name, answer, done.stderr))
            if wanted:
                self.assertRegex(done.stderr, f"^(dapl-port: )?{self.path}{answer}", name)
            self.assertEqual(done.stderr.count("\n"), 1 if wanted else 0, (name, done.stderr))

    def test_faults(self) -> None:
        for old, new, answer in self.FAULTS:
            old, new = (each.replace("= 2", f"= {self.version}") for each in (old, new))
            with self.subTest(new=new):
                self.assertIn(old, self.good)
                self.write(self.good.replace(old, new, 1))
                self.expect(answer)

    def test_a_file_that_cannot_be_read(self) -> None:
        self.path.unlink()
        self.path.mkdir()
        self.expect(": Is a directory")

    def test_no_file(self) -> None:
        self.path.unlink()
        self.assertIn("is no port: it has no port.toml", self.refused("status", "acme"))

    def refused(self, *arguments: object) -> str:
        self.before = contents(self.tree)
        return super().refused(*arguments)

    def test_another_version_of_the_contract(self) -> None:
        """The build ends there; `status` tells what else is to be done, too."""
        self.write(self.good.replace(f"contract = {self.version}", "contract = 1"))
        done = run_here("port_features.py", *self.tools()["port_features.py"], cwd=self.tree)
        self.assertRegex(done.stderr,
                         f"^{self.path}:3: the port was written for version 1 of the contract,"
                         rf" which is at {self.version}: .*\n$")
        self.assertIn("written for version 1 of the contract", self.port("status", "acme"))

    def test_list_goes_on(self) -> None:
        self.write("[port")
        told = self.port("list")
        self.assertRegex(told, r"(?m)^acme +/.*port.toml:1: this is no TOML")
        self.assertRegex(told, r"(?m)^soft +written")


if __name__ == "__main__":
    unittest.main()
