#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The files that `meson install` installs, and that they work there."""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

OPTIONS = argparse.Namespace()
MESON = "/usr/bin/meson" if os.path.exists("/usr/bin/meson") else "meson"


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        keep = tempfile.TemporaryDirectory(prefix="installed-")
        cls.addClassCleanup(keep.cleanup)
        cls.root = pathlib.Path(keep.name)
        cls.install()

    @classmethod
    def install(cls) -> None:
        done = subprocess.run([MESON, "install", "-C", OPTIONS.build, "--destdir", cls.root,
                               "--no-rebuild", "--quiet"], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)

    def place(self, folder: str) -> pathlib.Path:
        """A folder of the installation, as configured."""
        return self.root / (pathlib.Path(OPTIONS.prefix) / folder).relative_to("/")

    def test_programs(self) -> None:
        for name in [*OPTIONS.program, "dapl-port"]:
            self.assertTrue(os.access(self.place(OPTIONS.bindir) / name, os.X_OK), name)

    def test_libraries(self) -> None:
        for name in ["libdat2.so.2", "libdat2.so", *OPTIONS.library]:
            self.assertTrue((self.place(OPTIONS.libdir) / name).exists(), name)

    def test_pages(self) -> None:
        for name in OPTIONS.page:
            page = self.place(OPTIONS.mandir) / f"man{name[-1]}" / name
            self.assertTrue(page.exists(), page)

    def test_a_page_comes_with_its_program(self) -> None:
        programs = {path.name for path in self.place(OPTIONS.bindir).iterdir()}
        for page in self.place(OPTIONS.mandir).glob("man1/*.1*"):
            self.assertIn(page.name.split(".")[0], programs)

    def test_links_of_documents(self) -> None:
        """Each link leads to an installed file, too, or its sentence says that it does not."""
        found, data = 0, self.place(OPTIONS.datadir)
        for path in [*(data / "dapl/kit").rglob("*.md"), *(data / "doc/dapl").rglob("*.md")]:
            text = re.sub(r"(?<!\n)\n(?!\n)", " ", path.read_text())
            for sentence in re.split(r"(?<=[.:;]) |\n\n|\|", text):
                for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", sentence):
                    there = (path.parent / link).resolve()
                    found += 1
                    self.assertTrue(there.exists() or "source tree" in sentence,
                                    f"{path.relative_to(data)}: {link}")
        self.assertGreater(found, 50)

    def test_pkg_config_files(self) -> None:
        """All in one folder, so that one entry of PKG_CONFIG_PATH is enough."""
        folder = self.place(OPTIONS.libdir) / "pkgconfig"
        environment = {**os.environ, "PKG_CONFIG_LIBDIR": str(folder)}
        for name in ("dat2", "dapl-kit"):
            done = subprocess.run(["pkg-config", "--validate", name], capture_output=True,
                                  text=True, env=environment, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_examples_compile(self) -> None:
        """By the command at the head of each, with what is installed."""
        folder = self.place(OPTIONS.datadir) / "doc/dapl/examples"
        libraries = self.place(OPTIONS.libdir)
        environment = {**os.environ, "PKG_CONFIG_LIBDIR": str(libraries / "pkgconfig"),
                       "PKG_CONFIG_SYSROOT_DIR": str(self.root), "LD_LIBRARY_PATH": str(libraries)}
        sources = sorted(folder.glob("*.c"))
        self.assertIn("hello.c", [each.name for each in sources])
        for source in sources:
            command = re.search(r"(?m)^ \*   cc (.*) (-o \w+)$", source.read_text())
            self.assertTrue(command, source.name)
            strict = f"cc -Wall -Wextra -Wpedantic -Werror {command[1]} -o {self.root}/{source.stem}"
            done = subprocess.run(["sh", "-c", strict], cwd=folder, env=environment, check=False,
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, f"{strict}: {done.stderr}")

    def rpath(self, path: pathlib.Path) -> list[str]:
        dynamic = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
        return re.findall(r"\(RUNPATH\) .*\[(.*)\]", dynamic)

    def test_programs_find_the_library_beside_them(self) -> None:
        """Programs have a path to it, as the loader may not look there; in /usr, where packages are, none."""
        libraries = pathlib.Path(OPTIONS.prefix) / OPTIONS.libdir
        wanted = [] if OPTIONS.prefix == "/usr" else [str(libraries)]
        files = [self.place(OPTIONS.bindir) / name for name in OPTIONS.program]
        files += self.place(OPTIONS.libdir).glob("libdat.so.1.*")
        files += self.place(OPTIONS.libdir).glob("libdapl-am.so.*.*")
        for path in files:
            self.assertEqual(self.rpath(path), wanted, path.name)
        # A program that is linked as pkg-config says
        self.test_examples_compile()
        self.assertEqual([path.removeprefix(str(self.root)) for path in self.rpath(self.root / "hello")], wanted)

    def test_versions(self) -> None:
        """The table of docs/versions.md is true."""
        page = (self.place(OPTIONS.datadir) / "doc/dapl/docs/versions.md").read_text()
        libraries = self.place(OPTIONS.libdir)
        environment = {**os.environ, "PKG_CONFIG_LIBDIR": str(libraries / "pkgconfig")}
        named = re.findall(r"(?m)^\|[^|]*\| (.*) \| ([\d.]+) \| (.*) \| (.*) \|$", page)
        self.assertEqual(len(named), 6)
        for what, version, module, symbols in named:
            library = re.match(r"`(lib[\w-]+\.so)\.\d+`", what)
            if library and (libraries / library[1]).exists():
                self.assertTrue((libraries / f"{library[1]}.{version}").exists(), what)
                defined = subprocess.run(["objdump", "-p", libraries / library[1]], check=True,
                                         capture_output=True, text=True).stdout
                own = re.findall(r"(?m)^\d+ 0x00 \w+ (\S+)", defined)
                self.assertEqual(own, re.findall(r"`(\S+)`", symbols), what)
            if said := re.match(r"`(\S+)`: ([\d.]+)", module):
                if (libraries / f"pkgconfig/{said[1]}.pc").exists():
                    done = subprocess.run(["pkg-config", "--modversion", said[1]], check=False,
                                          capture_output=True, text=True, env=environment)
                    self.assertEqual(done.stdout, f"{said[2]}\n", done.stderr)
        contract = (self.place(OPTIONS.datadir) / "dapl/kit/contract/dapls_ib.hpp").read_text()
        self.assertEqual([version for what, version, *_ in named if "DAPLS_IB_VERSION" in what],
                         re.findall(r"#define DAPLS_IB_VERSION (\d+)", contract))
        news = (self.place(OPTIONS.datadir) / "doc/dapl/NEWS.md").read_text()
        self.assertEqual(named[0][1], re.search(r"(?m)^## (\S+)", news)[1])

    def test_headers_and_registry_file(self) -> None:
        self.assertTrue((self.place("include") / "dat2/udat.h").exists())
        self.assertTrue((self.place(OPTIONS.sysconfdir) / "dat.conf").exists())

    def test_an_edited_registry_file_is_kept(self) -> None:
        registry = self.place(OPTIONS.sysconfdir) / "dat.conf"
        sample = self.place(OPTIONS.datadir) / "dapl/dat.conf"
        built = registry.read_text()
        self.addCleanup(registry.write_text, built)
        beside = registry.with_name("dat.conf.new")
        self.install()
        self.assertFalse(beside.exists())
        registry.write_text(built + "# a line of this host\n")
        self.install()
        self.assertEqual(registry.read_text(), built + "# a line of this host\n")
        self.assertEqual(beside.read_text(), built)
        self.assertEqual(sample.read_text(), built)
        # An installation before this one, which nobody has edited.
        for path in (registry, sample):
            path.write_text("# other ports\n")
        self.install()
        self.assertEqual(registry.read_text(), built)

    def test_dat12_is_found_there(self) -> None:
        """Programs find what passes their calls on to DAT 1.2, where no linker sees it."""
        libraries = self.place(OPTIONS.libdir)
        self.assertEqual(list(libraries.glob("*over-dat12*")), [])
        environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries),
                       "DAT_OVERRIDE": str(self.place(OPTIONS.sysconfdir) / "dat.conf")}
        asked = {"dapl-conformance": ["--ia", "no-such"], "dat-perf": ["no-such"]}
        for name in set(asked) & set(OPTIONS.program):
            done = subprocess.run([self.place(OPTIONS.bindir) / name, "--api", "1.2", *asked[name]],
                                  capture_output=True, text=True, env=environment, check=False)
            self.assertNotIn("over-dat12", done.stderr)
            self.assertIn("adapter 'no-such' is unknown to DAT 1.2", done.stdout + done.stderr)

    def test_programs_run_there(self) -> None:
        """Programs run there: with the library in their folder, nothing of the build tree is
        needed.
        """
        environment = {**os.environ, "LD_LIBRARY_PATH": str(self.place(OPTIONS.libdir))}
        for name in [*OPTIONS.program, "dapl-port"]:
            done = subprocess.run([self.place(OPTIONS.bindir) / name, "--help"],
                                  capture_output=True, text=True, env=environment, cwd=self.root,
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(name, done.stdout)
        for name in OPTIONS.program:
            dynamic = subprocess.run(["readelf", "-d", self.place(OPTIONS.bindir) / name],
                                     capture_output=True, text=True, check=True).stdout
            self.assertNotIn(OPTIONS.build, dynamic, name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for one in ("build", "prefix", "bindir", "libdir", "mandir", "datadir", "sysconfdir"):
        parser.add_argument("--" + one, required=True)
    for several in ("program", "library", "page"):
        parser.add_argument("--" + several, action="append", default=[])
    rest = parser.parse_known_args(namespace=OPTIONS)[1]
    program = unittest.main(argv=[sys.argv[0], *rest], exit=False)
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
