#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A new port compiles at once, and its adapter opens, answers and closes.

In a copy of the tree, claiming nothing, for a device without a connection manager, and one over the
software HCA, which the suite judges; and as a project of its own against an installed kit, with
skeletons for all features. With DAPL_EVERY, in the tree, also for a device that has a connection
manager of its own and keys that are too wide.
"""

import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

from trees import MESON, copy_tree, dapl_port, run  # noqa: E402

PROBE = pathlib.Path(__file__).with_name("open_probe.c")
IMPORTS = pathlib.Path(__file__).parents[1] / "abi/imports.py"
# Without debug information nothing of an object depends on where its folder is: ccache helps.
QUICK = ("-Doptimization=0", "-Ddebug=false", "-Dwerror=true")
KIT_ONLY = (*QUICK, "-Dtests=false", "-Dbenchmarks=false", "-Dplain_variants=false",
            "-Dconformance=disabled", "-Dam=disabled")
VENDOR = "Acme Networks"
EVERY = "DAPL_EVERY" in os.environ


class WithFolder(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.tree = copy_tree(self.folder / "tree")
        self.build = self.folder / "out"

    def succeed(self, *command: object, cwd: pathlib.Path | None = None,
                **environment: str) -> str:
        done = run(*command, cwd=cwd, CCACHE_BASEDIR=str(self.folder), **environment)
        said = f"{' '.join(map(str, command))}\n{done.stdout[-6000:]}{done.stderr[-3000:]}"
        self.assertEqual(done.returncode, 0, said)
        return done.stdout

    def install(self) -> pathlib.Path:
        """An installed kit, and no source tree."""
        installed = self.folder / "installed"
        self.succeed(MESON, "setup", self.build, self.tree, "-Dports=[]", *KIT_ONLY,
                     f"-Dprefix={installed}", "-Dlibdir=lib")
        # dat-info takes as long to compile as all the rest, and nothing here runs it.
        targets = json.loads(self.succeed(MESON, "introspect", "--targets", self.build))
        made = [str(pathlib.Path(file).relative_to(self.build)) for each in targets
                if each["build_by_default"] and each["name"] not in ("dat-info", "program")
                for file in each["filename"]]
        self.succeed("ninja", "-C", self.build, *made)
        (self.build / "tools/dat-info/dat-info").touch()
        self.succeed(MESON, "install", "-C", self.build, "--no-rebuild")
        shutil.rmtree(self.tree)  # nothing of it is needed any more
        shutil.rmtree(self.build)
        return installed

    def open_adapter(self, name: str, include: pathlib.Path, libdat2: pathlib.Path,
                     conf: pathlib.Path, listens: str) -> None:
        """What a DAT program sees of it, and has to have for it."""
        library = re.search(rf"(?m)^{name} \S+ \S+ \S+ (\S+) ", conf.read_text())[1]
        self.succeed(sys.executable, IMPORTS, f"{library}=libdat2.so.2")
        probe = self.folder / "probe"
        self.succeed(*os.environ.get("CC", "cc").split(), "-Wall", "-Wextra", "-Werror",
                     f"-I{include}", PROBE, "-o", probe, f"-L{libdat2}", "-ldat2")
        told = self.succeed(probe, name, VENDOR, listens, LD_LIBRARY_PATH=str(libdat2),
                            DAT_OVERRIDE=str(conf))
        self.assertIn("opened, queried, closed", told)

    def installed_programs(self) -> list[str]:
        """Those that the build would install."""
        plan = json.loads(self.succeed(MESON, "introspect", "--install-plan", self.build))
        return sorted(pathlib.Path(each["destination"]).name for each in plan["targets"].values()
                      if each["destination"].startswith("{bindir}"))

    def judge(self, adapter: str, libdat2: pathlib.Path, conf: pathlib.Path, least: int,
              *options: str) -> None:
        """At least so many cases of the suite pass, and none fails."""
        program = os.environ.get("DAPL_CONFORMANCE")
        if program is None:
            self.skipTest("DAPL_CONFORMANCE names no dapl-conformance")
        told = self.succeed(program, "--ia", adapter, *options, LD_LIBRARY_PATH=str(libdat2),
                            DAT_OVERRIDE=str(conf))
        verdict = re.search(r"(\d+) passed, 0 failed, \d+ not claimed, (\d+) waived, 0 errors", told)
        self.assertIsNotNone(verdict, told)
        if "--waivers" not in options:
            self.assertEqual(verdict[2], "0", told)
        self.assertGreaterEqual(int(verdict[1]), least, told)


class InTheTree(WithFolder):
    SOME = ("IA-01", "MEM-0*", "EVD-24", "CNO-23", "EP-27", "SP-0*", "CR-0*", "CONN-0*", "DTO-0*",
            "LIFE-05", "LIFE-12", "LIFE-14")

    def test_new_port(self) -> None:
        for name, *options in (("acme",), ("apex", "--cm", "own", "--keys", "table"),
                               ("apogee", "--style", "sim")):
            done = dapl_port(self.tree, "new", name, "--vendor", VENDOR, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.succeed(MESON, "setup", self.build, self.tree, "-Dports=acme,apex,apogee",
                     *KIT_ONLY)
        self.assertNotIn("dapl-conformance", self.installed_programs())  # which is switched off
        bare = {"acme": "listens", "apex": "is deaf"}
        if not EVERY:
            del bare["apex"]
        self.succeed(MESON, "compile", "-C", self.build, "dat2", "dapl-apogee", "dat.conf",
                     *(f"dapl-{name}" for name in bare))
        for name, listens in bare.items():
            self.open_adapter(f"{name}-lo", self.tree / "include", self.build / "dat",
                              self.build / "transports/dat.conf", listens)
        layers = run(sys.executable, self.tree / "tests/layers/check_layers.py", self.tree)
        self.assertNotRegex(layers.stdout, "transports/(acme|apex|apogee)")
        self.judge("apogee-lo", self.build / "dat", self.build / "transports/dat.conf", 50,
                   *(f"--case={each}" for each in self.SOME))


class OutsideTheTree(WithFolder):
    def test_project_that_claims_all(self) -> None:
        told = dapl_port(self.tree, "status", "libfabric", "--json").stdout
        features = ",".join(json.loads(told)["features"])
        installed = self.install()
        project = self.folder / "dapl-acme"
        told = self.succeed(installed / "bin/dapl-port", "new", "acme", "--vendor", VENDOR,
                            "--cm", "own", "--claims", features, "--directory", project, cwd=self.folder)
        next_step = re.search(r"next: PKG_CONFIG_PATH=(\S+) meson setup (\S+) (\S+);", told)
        self.assertIsNotNone(next_step, told)
        self.assertIn("is an installed kit",
                      run(installed / "bin/dapl-port", "new", "acme", cwd=self.folder).stderr)
        out = project / "build"
        self.assertEqual(next_step.groups()[1:], (str(out), str(project)))
        self.succeed(MESON, "setup", out, project, *QUICK, "-Ddisable_features=cq_wait",
                     PKG_CONFIG_PATH=next_step[1])
        self.succeed("ninja", "-C", out)
        self.open_adapter("acme-lo", installed / "include", installed / "lib", out / "dat.conf",
                          "is deaf")
        self.assertIn("acme: 3 of", self.succeed(MESON, "devenv", "-C", out, "dapl-port", "status",
                                                 "acme"))
        checked = run(MESON, "devenv", "-C", out, "dapl-port", "check")
        self.assertEqual(checked.returncode, 1, checked.stdout + checked.stderr)
        lines = checked.stdout.splitlines()
        self.assertTrue(all("claimed, but dapls_ib_" in line for line in lines[:-1]), lines)
        self.assertRegex(lines[-1], r"^acme: \d+ errors, no warnings$")
        for suffix, feature, claimed in (("", "cq_wait", False), ("", "srq", True),
                                         ("-plain", "srq", False)):
            text = (out / f"features-acme{suffix}.hpp").read_text()
            self.assertEqual(f".{feature} = true" in text, claimed, (suffix, feature))
        self.judge_project(installed, project, out)
        self.install_project(out, installed)
        found = self.succeed(MESON, "devenv", "-C", out, "sh", "-c",
                             "command -v dapl-port; echo $LD_LIBRARY_PATH")
        self.assertEqual(found.splitlines()[0], str(installed / "bin/dapl-port"))
        self.assertIn(str(installed / "lib"), found.splitlines()[1].split(":"))

    def judge_project(self, installed: pathlib.Path, project: pathlib.Path,
                      out: pathlib.Path) -> None:
        """Its tests are the kit's programs, over the adapters of port.toml and without features."""
        programs = {"DAPL_CONFORMANCE": "bin", "DAPL_HAMMER": "libexec/dapl"}
        if not programs.keys() <= os.environ.keys():
            return
        for name, folder in programs.items():
            (installed / folder).mkdir(exist_ok=True, parents=True)
            shutil.copy(os.environ[name], installed / folder)
        profile = project / "port.toml"
        promise = "private_descriptors"
        profile.write_text(profile.read_text().replace(f"{promise} = false", f"{promise} = true"))
        self.assertNotIn("Compiling", self.succeed("ninja", "-C", out))  # but configured again
        tests = {each["name"]: " ".join(each["cmd"]) for each in
                 json.loads(self.succeed(MESON, "introspect", "--tests", out))}
        self.assertEqual({*tests}, {"acme-lo nonthreadsafe", "acme-lo threadsafe",
                                    "acme-lo-plain threadsafe", "hammer acme-lo"})
        for name, command in tests.items():
            self.assertEqual(f"--promise {promise}" in command, "hammer" not in name, command)
        told = self.succeed(MESON, "test", "-C", out, "--no-rebuild", "acme-lo-plain threadsafe",
                            "hammer acme-lo")
        self.assertRegex(told, r"Ok: +1\b")
        self.assertRegex(told, r"Skipped: +1\b")  # nothing is written yet

    def install_project(self, out: pathlib.Path, kit: pathlib.Path) -> None:
        """The library, and the lines that name it there."""
        root = self.folder / "root"
        self.succeed("ninja", "-C", out)
        self.succeed(MESON, "install", "-C", out, "--destdir", root, "--no-rebuild")
        conf = next(root.rglob("acme.conf")).read_text()
        library = re.search(r"(?m)^acme-lo u2\.0 threadsafe default (\S+) ", conf)[1]
        self.assertTrue((root / library[1:]).exists(), library)
        self.assertIn(f"acme-lo u1.2 threadsafe default {kit}/lib/libdat.so.1 dapl.1.2", conf)
        self.assertNotIn("-plain", conf + " ".join(str(path) for path in root.rglob("*")))


class Options(WithFolder):
    def configured_without(self, *tools: str) -> None:
        native = self.folder / "native.ini"
        native.write_text("[binaries]\n" + "".join(f"{tool} = 'false'\n" for tool in tools))
        self.succeed(MESON, "setup", self.build, self.tree, f"--native-file={native}")

    def test_the_suite_is_a_program_of_the_kit(self) -> None:
        """Also where the tests are not built, and without CMake, which nothing else needs."""
        self.configured_without("cmake")
        self.assertIn("dapl-conformance", self.installed_programs())

    def test_the_suite_needs_libraries(self) -> None:
        self.configured_without("cmake", "pkgconfig")
        self.assertNotIn("dapl-conformance", self.installed_programs())

    def test_what_is_compiled_by_default_is_installed(self) -> None:
        """Whoever packages it waits for nothing else."""
        self.configured_without("cmake")
        plan = json.loads(self.succeed(MESON, "introspect", "--install-plan", self.build))
        installed = [os.path.relpath(file, self.build) for file in plan["targets"]]
        self.assertEqual(self.compiled_for("all") - self.compiled_for(*installed), set())

    def compiled_for(self, *targets: str) -> set[str]:
        """The steps of compilers and linkers that ninja would take."""
        told = self.succeed("ninja", "-C", self.build, "-n", *targets)
        return {step for step in re.findall(r"(?m)^\[\d+/\d+\] (.*)", told)
                if step.startswith(("Compiling", "Linking"))}

    def test_traced_ports_are_for_developers(self) -> None:
        """Who can have a program write a trace is not to be found in a system's dat.conf."""
        self.succeed(MESON, "setup", self.build, self.tree, "-Dports=soft",
                     "-Dtraced_ports=soft", *KIT_ONLY)
        plan = self.succeed(MESON, "introspect", "--install-plan", self.build)
        self.assertIn("libdapl-soft.so", plan)
        self.assertNotIn("traced", plan)
        self.succeed("ninja", "-C", self.build, "tools/dat.conf", "transports/dat.conf")
        self.assertIn("traced", (self.build / "transports/dat.conf").read_text())
        self.assertNotIn("traced", (self.build / "tools/dat.conf").read_text())


if __name__ == "__main__":
    unittest.main()
