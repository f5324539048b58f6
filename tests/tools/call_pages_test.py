#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The manual pages of the calls say what the headers say, and man and mandoc can show them.

Headers are read here in another way than docs/make_call_pages.py reads them: by the compiler's view of
declarations, the lists of exported symbols, and the words of the comment above a call.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
import unittest

OPTIONS = argparse.Namespace()
ROOT = pathlib.Path(__file__).resolve().parents[2]
DAT_HEADERS = ("udat.h", "dat.h", "dat_ib_extensions.h", "dat_registry.h", "dat_event_names.h")


def exported(package: str) -> set[str]:
    """The symbols that a library exports, as debian/ lists them; a test holds that list too."""
    lines = (ROOT / f"debian/{package}.symbols").read_text().splitlines()
    return {name for name in (line.split("@")[0].strip() for line in lines if line.startswith(" "))
            if name.islower()}


def preprocessed(include: str, folder: pathlib.Path) -> str:
    done = subprocess.run([*OPTIONS.compiler, f"-I{folder}", "-E", "-P", "-x", "c", "-"], text=True,
                          input=f"#include <{include}>\n", capture_output=True, check=True)
    return " ".join(done.stdout.split())


def parameters(text: str, name: str) -> list[str]:
    """The names of a function's parameters, after the preprocessor."""
    inner = re.search(rf"\b{name} ?\(([^;{{]*?)\) ?(?:__attribute__[^;]*)?[;{{]", text)[1]
    names = [re.search(r"(\.\.\.|\w+)(?:\[\w*\])?$", each.strip())[1] for each in inner.split(",")]
    return [] if names == ["void"] else names


def macros(text: str) -> dict[str, list[str]]:
    """Macros that are called, with the names of their parameters."""
    text = text.replace("\\\n", " ")
    return {name: [each.strip() for each in inner.split(",")]
            for name, inner in re.findall(r"(?m)^ *# *define (dat_\w+)\(([^)]*)\)", text)}


def comment_above(text: str, name: str) -> str:
    """The comment that stands next above the first declaration of a call."""
    at = re.search(rf"(?m)^(?!typedef|[ */]).*\b{name} ?\(", text).start()
    begin = text.rindex("/**", 0, at)
    return re.sub(r"(?m)^ ?\* ?", "", text[begin + 3:text.index("*/", begin)])


class Page:
    """A page's source, by its headings."""

    def __init__(self, path: pathlib.Path) -> None:
        self.sections: dict[str, str] = {}
        for part in re.split(r"(?m)^\.SH ", path.read_text())[1:]:
            title, _, body = part.partition("\n")
            self.sections[title.strip('"')] = body

    def plain(self, title: str) -> str:
        return self.shown(re.sub(r"(?m)^\.(?:BR|TP|PP|nf|fi|RS.*|RE|sp|IP.*) ?", "", self.sections.get(title, "")))

    @staticmethod
    def shown(text: str) -> str:
        for code, letter in ((r"\fB", ""), (r"\fI", ""), (r"\fP", ""), (r"\&", ""), (r"\-", "-"),
                             (r"\(aq", "'"), (r"\e", "\\")):
            text = text.replace(code, letter)
        return re.sub(r"\((?:3|5|7|1)\)", "()", " ".join(text.split()))

    def plain_everything(self) -> str:
        return " ".join(map(self.plain, self.sections))

    def terms(self, title: str) -> list[tuple[str, str]]:
        """What .TP lists: term and text."""
        found = []
        for item in re.split(r"(?m)^\.TP\n", self.sections.get(title, ""))[1:]:
            term, _, text = re.split(r"(?m)^\.PP$", item)[0].partition("\n")
            found.append((self.shown(term), self.shown(text)))
        return found


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


class CallPages(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.files = {path.name: path for path in sorted(OPTIONS.pages.glob("*.[37]"))
                     if "Made from a header" in path.read_text()[:100]}
        cls.dat_text = preprocessed("dat2/dat_registry.h", ROOT / "include") + " " + \
            preprocessed("dat2/dat_event_names.h", ROOT / "include") + " " + \
            preprocessed("dat2/dat_ib_extensions.h", ROOT / "include")
        cls.dat_headers = "".join((ROOT / "include/dat2" / name).read_text() for name in DAT_HEADERS)
        cls.am_header = (ROOT / "am/include/dapl_am.h").read_text()

    def page(self, name: str) -> Page:
        self.assertTrue(f"{name}.3" in self.files, f"there is no page {name}(3)")
        return Page(self.files[f"{name}.3"])

    def hold(self, name: str, names: list[str], header: str) -> None:
        """A page against the declaration of its call and the comment above it."""
        page, comment = self.page(name), comment_above(header, name)
        declared = page.plain("SYNOPSIS")
        self.assertRegex(declared, rf"\b{name}\(")
        own = re.search(rf"\b{name}\(([^;]*)\);", declared)[1]
        self.assertEqual([words(each)[-1] for each in own.split(",") if each.strip() not in ("void", "...")],
                         [each for each in names if each != "..."])
        told = dict(page.terms("PARAMETERS"))
        for each in names:
            term = next((term for term in told if term.split(" ")[0] == each), "")
            self.assertRegex(term, r" \((in|out|in,out)\)$", f"{name}: {each}")
            self.assertTrue(told[term], f"{name}: nothing is said of {each}")
        self.assertTrue(page.plain("THREADS"), name)
        answers = dict(page.terms("RETURN VALUE"))
        for code, text in re.findall(r"@retval (\S+)((?:(?!\n@|\n\n)[\s\S])*)", comment):
            self.assertIn(code, answers, name)
            self.assertEqual(words(answers[code]), words(text), f"{name}: {code}")
        shown = {term.split(" ")[0]: text for term, text in told.items()}
        for each, text in re.findall(r"@param\[[a-z,]+\] +([\w.]+)((?:(?!\n@|\n\n)[\s\S])*)", comment):
            if each in shown:
                self.assertEqual(words(shown[each]), words(text), f"{name}: {each}")
        first = re.split(r"\n@|\n\n", comment.strip())[0]
        self.assertEqual(words(first), words(page.plain("DESCRIPTION"))[:len(words(first))], name)
        # Whoever reads only the page learns the source of the rule.
        rule = re.search(r"Rule: ([\s\S]*)", comment)
        if rule:
            self.assertEqual(words(page.plain("STANDARDS")), words(rule[1]), name)

    def test_calls_of_dat(self) -> None:
        functions = exported("libdat2-2") | {"dat_provider_init", "dat_provider_fini"}
        functions |= set(re.findall(r"__inline__ [\w *]*?(dat\w+)\(", self.dat_headers))
        self.assertGreater(len(functions), 85)
        called = macros(self.dat_headers)
        self.assertGreater(len(called), 30)
        for name in sorted(functions):
            self.hold(name, parameters(self.dat_text, name), self.dat_headers)
        for name, names in called.items():
            self.hold(name, names, self.dat_headers)
        for name in functions | set(called):
            page = self.page(name)
            self.assertIn("STANDARDS", page.sections, name)
            self.assertTrue(page.plain("DAT 1.2"), name)
            if page.plain("SYNOPSIS").split(name)[0].endswith("DAT_RETURN "):
                self.assertTrue(page.plain("RETURN VALUE"), name)

    def test_calls_of_libdapl_am(self) -> None:
        if "dapl_am_calls.7" not in self.files:
            self.skipTest("this build has no libdapl-am")
        text = preprocessed("dapl_am.h", ROOT / "am/include")
        functions = exported("libdapl-am1")
        self.assertGreater(len(functions), 50)
        for name in functions:
            self.hold(name, parameters(text, name), self.am_header)

    def test_generation_before(self) -> None:
        """A page says whether DAT 1.2 has the call."""
        old = preprocessed("dat/dat_registry.h", ROOT / "include")
        for name in exported("libdat2-2"):
            self.assertEqual("has no such call" in self.page(name).plain("DAT 1.2"),
                             re.search(rf"\b{name} ?\(", old) is None, name)

    def test_operations_and_upcalls(self) -> None:
        table = tomllib.loads((ROOT / "gen/dapls_ib.toml").read_text())
        header = (ROOT / "contract/dapls_ib.hpp").read_text()
        declared = set(re.findall(r"\b(dapls?_\w+)\((?!\))", header)) | set(re.findall(r"\bdapls_ib_\w+(?=\()", header))
        for name, row in {**table["operations"], **table["upcalls"]}.items():
            self.assertIn(name, declared)
            page = self.page(name)
            comment = re.search(rf"((?:^ *///.*\n)+)(?:^(?! *///).+\n)*?^.*\b{name}\(([^;{{]*)\)", header, re.M)
            text = re.sub(r"(?m)^ *///", "", comment[1])
            has = words(page.plain("DESCRIPTION").replace("dapls_ib_", "").replace("dapl_", ""))
            for word in words(text.replace("dapls_ib_", "").replace("dapl_", ""))[1:]:
                self.assertIn(word, [*has, *words(page.plain("FEATURES"))], name)
            types = [each for each in re.sub(r"/\*.*?\*/", "", comment[2]).split(",") if each.strip()]
            terms = [term for term, _ in page.terms("PARAMETERS")]
            self.assertEqual(len(terms), len(types), name)
            for term, kind in zip(terms, types):
                self.assertEqual(words(term)[:1], words(kind)[:1], name)
            for rule in row["rules"]:
                self.assertIn(rule, page.plain("TESTS"), name)
            self.assertTrue(page.plain("THREADS"), name)

    def test_pages_that_are_named_exist(self) -> None:
        others = {path.name.removesuffix(".md") for path in (ROOT / "docs/man").glob("*.md")}
        named = 0
        for path in self.files.values():
            for name, section in re.findall(r"(?:^\.BR |\\fB)([\w.-]+)(?:\\fP)? ?\((\d)\)", path.read_text(), re.M):
                named += 1
                self.assertTrue(f"{name}.{section}" in self.files or f"{name}.{section}" in others,
                                f"{path.name} names {name}({section}), which is no page")
        self.assertGreater(named, 1000)

    def test_every_type_of_a_call_has_a_page(self) -> None:
        """As a page of its own, or on dat_types(7)."""
        plain = set(words(Page(self.files["dat_types.7"]).plain_everything()))
        seen = set()
        for name in exported("libdat2-2"):
            used = set(re.findall(r"\bDAT_[A-Z_0-9]+\b", self.page(name).plain("SYNOPSIS")))
            for kind in used - {"DAT_PROVIDER"}:  # the vector of a provider, of dat2/udat_redirection.h
                seen.add(kind)
                self.assertTrue(f"{kind}.3" in self.files or kind in plain, f"{name}: {kind}")
        self.assertGreater(len(seen), 50)
        for constant in ("DAT_TIMEOUT_INFINITE", "DAT_HANDLE_NULL", "DAT_IA_FIELD_ALL"):
            self.assertIn(constant, plain)

    def test_names_that_lead_to_a_page(self) -> None:
        """What someone tries who knows the API's name only, and types that are a name for another one."""
        plain = " ".join(re.findall(r"(?m)^typedef .*", Page(self.files["dat_types.7"]).shown(
            self.files["dat_types.7"].read_text()).replace("typedef", "\ntypedef")))
        leads = {path.name: path.read_text() for path in OPTIONS.pages.glob("*.[37]")
                 if path.read_text().startswith(".so ")}
        for name in ("dat.7", "udapl.7"):
            self.assertEqual(leads.pop(name), ".so man7/dat_calls.7\n")
        self.assertRegex(Page(self.files["dat_calls.7"]).plain("NAME"), r"\bdat, udapl - .*Direct Access Transport")
        for name in ("DAT_IA_ADDRESS_PTR", "DAT_DTO_COOKIE", "DAT_EVD_HANDLE", "DAT_CONN_QUAL", "DAT_RETURN"):
            self.assertIn(f"{name}.3", leads)
        for name, text in leads.items():
            self.assertEqual(text, ".so man7/dat_types.7\n", name)
            self.assertIn(name.removesuffix(".3"), words(plain))

    def test_the_list_begins_with_adapters(self) -> None:
        """Groups come as a program needs them; a title says which belong to an extension."""
        titles = list(Page(self.files["dat_calls.7"]).sections)
        self.assertEqual(titles[titles.index("HOW TO READ THE PAGES") + 1], "INTERFACE ADAPTERS")
        self.assertIn("IB EXTENSION: COUNTERS", titles)

    def test_what_is_said_of_examples_stands_alone(self) -> None:
        seen = 0
        for path in self.files.values():
            for piece in re.split(r"(?m)^\.RE$", Page(path).sections.get("EXAMPLES", "")):
                text, code, _ = piece.partition(".RS 4\n")
                if code:
                    seen += 1
                    self.assertNotRegex(Page.shown(text.replace(".PP\n", "")),
                                        r"^(?:They|It|These|This)\b|\bstep \d| - |: CHECK", path.name)
        self.assertGreater(seen, 10)

    def test_examples_are_there(self) -> None:
        for name, call in (("dat_evd_wait", "dat_evd_wait(evd, 1000, 16"), ("dat_cno_wait", "dat_cno_wait("),
                           ("dat_rmr_bind", "dat_rmr_bind("), ("dat_srq_post_recv", "dat_srq_post_recv("),
                           ("dat_ia_openv", "DAT_TRUE"), ("dat_ep_connect", "getaddrinfo(")):
            self.assertIn(call, self.page(name).plain("EXAMPLES"), name)

    def test_man_can_show_them(self) -> None:
        if shutil.which("groff") is None:
            self.skipTest("groff is missing")
        done = subprocess.run(["groff", "-ww", "-man", "-Kutf8", "-Tutf8", "-rLL=80n", *self.files.values()],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn("\\f", done.stdout)

    def test_mandoc_finds_no_fault(self) -> None:
        if shutil.which("mandoc") is None:
            self.skipTest("mandoc is missing")
        done = subprocess.run(["mandoc", "-T", "lint", *self.files.values()], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.stdout + done.stderr, "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=pathlib.Path, required=True, help="the folder that they were made in")
    parser.add_argument("compiler", nargs="+", help="of C, after --")
    parser.parse_args(namespace=OPTIONS)
    program = unittest.main(argv=sys.argv[:1], exit=False)
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
