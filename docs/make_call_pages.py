#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Make the manual pages of section 3, one for each call, out of the headers that describe the calls.

They need no other program. Pages of types show these as the header declares them, and examples are
pieces of docs/programming, which name the pages that show them:

    <!-- shown by dat_evd_wait, dat_evd_dequeue -->
"""

import argparse
import dataclasses
import pathlib
import re
import sys
import textwrap

import described_calls
from roff import WIDTH, bold, code_line, escaped, heading, literal, tidy, title, wrapped

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "gen"))
import contract  # noqa: E402

HEAD = '.\\" Made from a header; do not edit.'


class Prose:
    """Turns sentences of a header into roff: names of pages become references."""

    WORDS = re.compile(r"`(?P<code>[^`]+)`|(?P<page>[\w.-]+)\((?P<section>\d)\)|(?P<call>\b[a-z]\w*)\(\)"
                       r"|(?P<constant>\b(?:DAT|DCNT|DAPL)_\w+\*?)|(?P<variable>\b[a-z]+_\w+\b)")

    def __init__(self, pages: set[str], own: str = "", variables: set[str] = frozenset()) -> None:
        self.pages, self.own, self.variables = pages, own, variables
        self.seen: list[str] = []  # pages that were named

    def word(self, found: re.Match) -> str:
        if found["code"]:
            return bold(found["code"])
        if found["page"]:
            return f"{bold(found['page'])}({found['section']})"
        if found["call"]:
            name = found["call"]
            if name in self.pages and name != self.own:
                self.seen.append(name)
                return f"{bold(name)}(3)"
            return f"{bold(name)}()"
        if found["constant"]:
            return bold(found["constant"])
        if found["variable"] in self.pages:
            return bold(found["variable"])
        if found["variable"] in self.variables:
            return f"\\fI{found['variable']}\\fP"
        return found["variable"]

    def line(self, text: str) -> str:
        # Escapes first, so that those of the words stay.
        pieces, end = [], 0
        for found in self.WORDS.finditer(text):
            pieces += [escaped(text[end:found.start()]), self.word(found)]
            end = found.end()
        return "".join(pieces) + escaped(text[end:])

    def lines(self, text: str) -> list[str]:
        return wrapped(self.line(text))

    def paragraph(self, text: str) -> list[str]:
        """One, or the list or table that it is."""
        if text.startswith("|"):
            rows = [line for line in text.split("\n") if not re.fullmatch(r"[|\-\s]+", line)]
            return literal([re.sub(r"^\| | \|$", "", row).replace(" | ", "  ").rstrip() for row in rows])
        return [".PP", *self.lines(text)]


# ------------------------------------------------------------------------------------ one page


@dataclasses.dataclass(frozen=True)
class Release:
    version: str
    date: str

    def head(self, name: str, section: str, manual: str) -> list[str]:
        return title(name, section, self.date, self.version, manual)


def sentence(text: str) -> str:
    """A brief text as NAME has it: without a capital, unless that is a name's."""
    first = text.split(" ", 1)[0]
    keeps = re.search(r"[A-Z_]", first[1:]) or first in ("A", "I")
    return text if keeps else text[:1].lower() + text[1:]


def name_lines(names: list[str], brief: str) -> list[str]:
    return wrapped(f"{', '.join(names)} \\- {escaped(sentence(brief)).replace('`', '')}")


def declared_as(returns: str, name: str, parameters: list[str]) -> list[str]:
    """A prototype, a parameter a line where one line is too long; parameters' names in italics."""
    def with_name(declared: str) -> str:
        found = re.match(r"(.*?)(\w+)((?:\[\w*\])?)$", declared)
        if found is None or found[1] == "":
            return f"\\fB{escaped(declared)}\\fP"
        return f"\\fB{escaped(found[1])}\\fP\\fI{found[2]}\\fP\\fB{found[3]}\\fP"

    start = f"{returns}{'' if returns.endswith('*') else ' '}{name}("
    plain = start + ", ".join(parameters or ["void"]) + ");"
    marked = [with_name(each) for each in parameters] or ["\\fBvoid\\fP"]
    opening = f"\\fB{escaped(start)}\\fP"
    if len(plain) <= WIDTH - 2:
        return [opening + "\\fB, \\fP".join(marked) + "\\fB);\\fP"]
    lines = [opening] + [f"        {each}\\fB,\\fP" for each in marked[:-1]]
    return [*lines, f"        {marked[-1]}\\fB);\\fP"]


def see_also(names: list[str]) -> list[str]:
    """References in order, each once."""
    refs = sorted(dict.fromkeys(names))
    return heading("SEE ALSO") + [f".BR {name} ({section}){',' if at + 1 < len(refs) else ''}"
                                  for at, (section, name) in enumerate(refs)]


# ------------------------------------------------------------------------------------ DAT and libdapl-am


@dataclasses.dataclass(frozen=True)
class Library:
    """A set of headers, the pages of their calls, and the page that introduces them."""

    title: str  # of the manual
    includes: dict[str, str]  # by header
    link: str
    overview: str
    about: str  # the first sentence of the overview
    more: tuple[tuple[str, str], ...]  # section and name of other pages
    headers: dict[str, described_calls.Described]
    rules: list[str]
    begin: str  # where a program's author begins
    threads: dict[str, str] = dataclasses.field(default_factory=dict)
    plain: tuple[str, dict[str, list[str]]] | None = None  # the page of plain types, with its lines
    aliases: tuple[str, ...] = ()  # of the overview
    what: str = "the calls of {title}, by what they are about"  # of the overview's NAME
    extension: str = ""  # the header of an extension

    def calls(self) -> dict[str, tuple[str, described_calls.Call]]:
        return {name: (header, call) for header, all_ in self.headers.items()
                for name, call in all_.calls.items()}

    def types(self) -> dict[str, tuple[str, str]]:
        return {name: (header, code) for header, all_ in self.headers.items()
                for name, code in all_.types.items()}


THREADS_OF_DAT = {
    "safe": "Safe: any thread may make this call at any time.",
    "per object": "Per object: two threads may make this call at once for different objects; for one "
                  "object only where the adapter was opened as thread-safe (DAT_THREADSAFE).",
    "one call at a time": "One call at a time: libdat2 sees to that.",
}
THREADS_OF_JOBS = {
    "any": "Any thread, between dapl_am_attach() and the end of the job; not from a handler.",
    "any, handlers too": "Any thread, between dapl_am_attach() and the end of the job; from a handler, too.",
}


def dat(root: pathlib.Path) -> Library:
    names = ("dat.h", "udat.h", "dat_ib_extensions.h", "dat_registry.h", "dat_event_names.h",
             "dat_error.h", "dat_platform_specific.h")
    include = root / "include/dat2"
    headers = {name: described_calls.read_header(include / name) for name in names}
    return Library(
        title="DAT 2.0", includes={
            name: f"<dat2/{'udat.h' if name in ('dat.h', 'dat_error.h', 'dat_platform_specific.h') else name}>"
            for name in names},
        link="Link with $(pkg-config --cflags --libs dat2).",
        overview="dat_calls", aliases=("dat", "udapl"),
        what="the calls of the Direct Access Transport ({title}, uDAPL), by what they are about",
        extension="dat_ib_extensions.h",
        about="Programs of the Direct Access Transport (DAT 2.0) are made of the calls below. They include "
              "<dat2/udat.h>, and are linked with libdat2, which finds adapters by name in dat.conf(5).",
        more=(("1", "dat-info"), ("5", "dat.conf"), ("7", "dapl-environment")),
        headers=headers, rules=described_calls.reading_rules(include / "dat.h"),
        begin="A client and a server in one file are in examples/hello.c of the installed documentation, which is "
              "below share/doc/dapl of the prefix. Which call comes when, and what waits for what, is in the guide "
              "beside it, docs/programming/objects.md, data.md and waiting.md.",
        threads=THREADS_OF_DAT,
        plain=("dat_types", described_calls.plain_types("".join(
            (include / name).read_text() for name in ("dat_platform_specific.h", "dat_error.h", "dat.h", "udat.h")))))


def active_messages(root: pathlib.Path) -> Library:
    header = root / "am/include/dapl_am.h"
    return Library(
        title="DAPL-AM", includes={"dapl_am.h": "<dapl_am.h>"},
        link="Link with $(pkg-config --cflags --libs dapl-am).",
        overview="dapl_am_calls",
        about="Programs whose processes are a job use active messages, put, get and barriers by the calls "
              "below, of libdapl-am. What a job is, and how one is started, is in dapl-am(7).",
        more=(("7", "dapl-am"), ("1", "dat-am-perf")),
        headers={"dapl_am.h": described_calls.read_header(header)},
        rules=described_calls.reading_rules(header), threads=THREADS_OF_JOBS,
        begin="A program of a job is in examples/halo.c of the installed documentation, which is below "
              "share/doc/dapl of the prefix; docs/active-messages.md there is the guide.")


def types_in(call: described_calls.Call, types: dict) -> list[str]:
    words = re.findall(r"\w+", " ".join([each.declared for each in call.parameters] + [call.returns]))
    return [word for word in dict.fromkeys(words) if word in types]


def neighbours(call: described_calls.Call, library: Library) -> list[str]:
    """Calls on objects of the same kind, and those of the same part of the header where none are."""
    stem = re.match(r"dat_(?!ib_)[a-z]+_|", call.name)[0]
    return [name for name, (_, each) in library.calls().items() if name not in call.shares and
            (name.startswith(stem) if stem else each.group == call.group)]


def constants_of(name: str, types: dict) -> list[str]:
    """The enumeration or structure that a text means by DAT_EP_FIELD_*."""
    stem = name.removesuffix("*")
    return [each for each, (_, code) in types.items() if re.search(rf"\b{re.escape(stem)}\w+ +=", code)]


def differences(call: described_calls.Call, old: described_calls.Call | None) -> list[str]:
    """What DAT 1.2 has otherwise, a sentence each."""
    if old is None:
        return ["DAT 1.2 has no such call."]
    found = []
    if [each.declared for each in call.parameters] != [each.declared for each in old.parameters]:
        shown = ", ".join(each.declared for each in old.parameters)
        found.append(f"DAT 1.2 has it as {call.name}({shown}).")
    before = {each.name: each for each in old.parameters}
    for each in call.parameters:
        if each.name in before and before[each.name].text != each.text and before[each.name].text:
            found.append(f"In DAT 1.2, {each.name} is: {before[each.name].text}.")
    now, then = dict(call.text.answers), dict(old.text.answers)
    for code in then:
        if code not in now or then[code] != now[code]:
            found.append(f"DAT 1.2 answers {code}{': ' + then[code] if then[code] else ''}.")
    lacks = [code for code in now if code not in then]
    if lacks:
        found.append(f"DAT 1.2 does not answer {', '.join(lacks)}.")
    if call.text.description != old.text.description:
        found.append("In DAT 1.2: " + " ".join(old.text.description))
    return found or ["The same in DAT 1.2, by <dat/udat.h> and libdat."]


class Pages:
    """All pages, by file name."""

    def __init__(self, release: Release, root: pathlib.Path) -> None:
        self.release, self.root = release, root
        self.made: dict[str, list[str]] = {}
        self.examples = examples(root)

    def call_pages(self, library: Library, old: dict[str, described_calls.Call] | None) -> None:
        calls, types = library.calls(), library.types()
        known = set(calls) | set(types)
        for name, (header, call) in calls.items():
            self.made[f"{name}.3"] = self.call_page(library, header, call, known, old)
        for described in library.headers.values():
            for name, of in described.aliases.items():
                header, call = calls[of]
                self.made[f"{name}.3"] = self.call_page(
                    library, header, dataclasses.replace(call, name=name, shares=(name, of)), known, old)
        for name, (header, code) in types.items():
            self.made[f"{name}.3"] = self.type_page(library, header, name, code)
        self.made[f"{library.overview}.7"] = self.overview(library, known)
        for name in library.aliases:
            self.made[f"{name}.7"] = [f".so man7/{library.overview}.7"]
        if library.plain:
            plain, groups = library.plain
            self.made[f"{plain}.7"] = self.plain_types(library)
            for name in described_calls.names_of_types(groups):
                self.made.setdefault(f"{name}.3", [f".so man7/{plain}.7"])

    def call_page(self, library: Library, header: str, call: described_calls.Call, known: set[str],
                  old: dict[str, described_calls.Call] | None) -> list[str]:
        names = list(dict.fromkeys((call.name, *call.shares)))
        together = [library.calls()[name][1] for name in call.shares if name in library.calls()]
        parameters = {each.name: each for one in together for each in one.parameters}
        prose = Prose(known, call.name, set(parameters))
        text = call.text
        page = self.release.head(call.name, "3", library.title)
        page += heading("NAME")
        page += name_lines(names, text.brief)
        page += heading("SYNOPSIS") + [".nf", bold(f"#include {library.includes[header]}"), ".PP"]
        for one in together:
            page += declared_as(one.returns, one.name, [each.declared for each in one.parameters])
        page += [".fi", ".PP", *prose.lines(library.link)]
        page += heading("DESCRIPTION")
        for paragraph in text.description:
            page += prose.paragraph(paragraph)
        if call.is_macro:
            page += prose.paragraph("It is a macro around dat_extension_op()." if "dat_ia_open" != call.name
                                    else "It is a macro.")
        page += heading("PARAMETERS") if parameters else []
        for each in parameters.values():
            direction = f" ({each.direction})" if each.direction else ""
            page += [".TP", f"\\fI{each.name}\\fP{direction}",
                     *(prose.lines(each.text) or ["\\&"])]
        page += self.answers(call, prose)
        threads = library.threads.get(text.threads, text.threads[:1].upper() + text.threads[1:] + ".")
        page += heading("THREADS") + prose.lines(threads)
        if text.notes:
            page += heading("NOTES")
            for note in text.notes:
                page += prose.lines(note)
        if old is not None:
            page += heading("DAT 1.2")
            for each in differences(call, old.get(call.name)):
                page += prose.paragraph(each)
        if text.rule:
            page += heading("STANDARDS") + prose.lines(text.rule)
        for example in self.examples.get(call.name, []):
            page += heading("EXAMPLES") if ".SH EXAMPLES" not in page else []
            page += [*prose.paragraph(example.about), *literal(example.code)]
        near = [("3", name) for name in prose.seen]
        near += [("3", name) for name in types_in(call, library.types())]
        for constant in re.findall(r"\bD\w+_\*", " ".join(each.text for each in parameters.values())):
            near += [("3", name) for name in constants_of(constant, library.types())]
        near += [("3", name) for name in neighbours(call, library)]
        near += [("7", library.plain[0])] if library.plain else []
        return page + see_also([*near, ("7", library.overview), *library.more])

    def answers(self, call: described_calls.Call, prose: Prose) -> list[str]:
        text, page = call.text, []
        if call.returns == "void" and not text.answers:
            return page
        page += heading("RETURN VALUE")
        if text.returns:
            page += prose.lines(text.returns[:1].upper() + text.returns[1:].rstrip(".") + ".")
        for code, told in text.answers:
            page += [".TP", bold(code), *(prose.lines(told) or ["\\&"])]
        more = re.sub(r"^and as (\w+)\(\)", r"Besides what \1() answers", text.more)
        more = re.sub(r"^Returns as (\w+\(\))", r"It returns what \1 does", more)
        if more.startswith("Besides"):
            more = re.sub(r"^Besides what (\w+\(\)) answers", r"It also returns what \1 does", more)
        if more:
            page += [".PP", *prose.lines(more)]
        return page

    def type_page(self, library: Library, header: str, name: str, code: str) -> list[str]:
        calls = library.calls()
        used = [each for each, (_, call) in calls.items() if name in types_in(call, library.types())]
        parts = [each for each in library.types() if each != name and re.search(rf"\b{each}\b", code)]
        whole = [each for each, (_, other) in library.types().items()
                 if each != name and re.search(rf"\b{name}\b", other)]
        comment = re.match(r"/\*\*.*?\*/\n", code, re.S)
        told = described_calls.read_text(comment[0]).description if comment else ()
        kind = re.search(r"\b(struct|union|enum)\b", code)[1]
        kind = {"struct": "structure", "union": "union", "enum": "enumeration"}[kind]
        first = described_calls.Text(description=told).brief if told else f"{kind} of {library.title}"
        prose = Prose(set(calls) | set(library.types()), name)
        page = self.release.head(name, "3", library.title) + heading("NAME")
        page += name_lines([name], first)
        page += heading("SYNOPSIS") + [".nf", bold(f"#include {library.includes[header]}"), ".fi"]
        if told:
            page += heading("DESCRIPTION")
            for paragraph in told:
                page += prose.paragraph(paragraph)
        page += heading("DECLARATION") + [".nf"]
        page += [code_line(line) if line.strip() else ".sp"
                 for line in code[comment.end() if comment else 0:].split("\n")] + [".fi"]
        near = [("3", each) for each in prose.seen + used + parts + whole]
        return page + see_also([*near, ("7", library.overview)])

    def overview(self, library: Library, known: set[str]) -> list[str]:
        prose = Prose(known)
        page = self.release.head(library.overview, "7", library.title) + heading("NAME")
        page += name_lines([library.overview, *library.aliases], library.what.format(title=library.title))
        page += heading("SYNOPSIS")
        page += [*prose.lines("#include " + next(iter(library.includes.values()))), ".PP",
                 *prose.lines(library.link)]
        page += heading("DESCRIPTION") + prose.lines(library.about)
        page += heading("WHERE TO BEGIN") + prose.lines(library.begin)
        page += heading("HOW TO READ THE PAGES")
        for rule in library.rules:
            page += [".IP \\(bu 2", *prose.lines(rule)]
        groups: dict[str, list[described_calls.Call]] = {}
        introductions: dict[str, tuple[str, ...]] = {}
        for header, described in library.headers.items():
            kind = "IB extension: " if header == library.extension else ""
            introductions.update({kind + group: text for group, text in described.introductions.items()})
            for call in described.calls.values():
                groups.setdefault(kind + re.sub(r" \(.*", "", call.group) or "Names", []).append(call)
        for group, calls in groups.items():
            page += heading(group.upper())
            for paragraph in introductions.get(group, ()):
                page += prose.paragraph(paragraph)
            for call in calls:
                page += [".TP", f"{bold(call.name)}(3)", *prose.lines(sentence(call.text.brief))]
        plain = [("7", library.plain[0])] if library.plain else []
        return page + see_also([*library.more, *plain, *(("3", name) for name in known)])

    def plain_types(self, library: Library) -> list[str]:
        name, groups = library.plain
        page = self.release.head(name, "7", library.title) + heading("NAME")
        page += name_lines([name], f"handles, numbers and constants of {library.title}")
        page += heading("SYNOPSIS") + [".nf", bold(f"#include {next(iter(library.includes.values()))}"), ".fi"]
        page += heading("DESCRIPTION")
        page += wrapped("Types that are a name for another one, and constants. Structures, unions and enumerations "
                        "have a page each, by their names.")
        for group, lines in groups.items():
            page += heading(group.upper()) + [".nf", *map(code_line, lines), ".fi"]
        return page + see_also([("7", library.overview)])

    # -------------------------------------------------------------------------------- the contract

    def contract_pages(self) -> None:
        path, table = self.root / "contract/dapls_ib.hpp", self.root / "gen/dapls_ib.toml"
        header, rows = contract.read_header(path), contract.read_table(table)
        operations = contract.operations(header, rows)
        structs = described_calls.read_types_of_cpp(path.read_text())
        manual = f"DAPL contract {header.version}"
        known = {each.name for each in operations} | set(header.upcalls)
        words = dict(thread_words(header))
        for each in operations:
            thread = f"{each.thread}: {words[each.thread]}" if each.thread in words else \
                {"any": "Any thread, at any time in the life of the object.",
                 "waiter": "One consumer thread at a time for an object, which sleeps there."}[each.thread]
            needs = (f"Needed by ports that claim {', '.join(each.features)}; others inherit an answer."
                     if each.features else "Every port has it.")
            blocks = "It may block." if each.may_block else "It does not block."
            self.made[f"{each.name}.3"] = self.contract_page(
                manual, each.declared, each.brief, [thread, blocks], needs, each.rules, known, structs)
        for name, row in rows["upcalls"].items():
            declared = header.upcalls[name]
            needs = (f"For ports that claim {', '.join(declared.features)}."
                     if declared.features else "Every port may call it.")
            self.made[f"{name}.3"] = self.contract_page(
                manual, declared, row["brief"], [f"upcall: {words['upcall']}"], needs, row["rules"], known,
                structs)
        self.made["dapls_ib.7"] = self.contract_overview(manual, path, header, operations, rows, known)

    def contract_page(self, manual: str, declared: contract.Declared, brief: str, threads: list[str],
                      needs: str, rules: tuple[str, ...], known: set[str],
                      structs: dict[str, str]) -> list[str]:
        names = ContractProse(known, declared.name)
        page = self.release.head(declared.name, "3", manual) + heading("NAME")
        page += name_lines([declared.name], brief)
        page += heading("SYNOPSIS") + [".nf", bold("#include <dapls_ib.hpp>"), ".PP"]
        page += declared_as(declared.returns, declared.name, list(declared.parameters))
        page += [".fi"] + heading("DESCRIPTION")
        paragraphs = "\n".join(declared.text).split("\n\n")
        for paragraph in paragraphs:
            page += names.paragraph(" ".join(paragraph.split()))
        page += heading("PARAMETERS") if declared.parameters else []
        for each in declared.parameters:
            kind = next((word for word in re.findall(r"\w+", each) if word in structs), None)
            page += [".TP", bold(re.sub(r"/\*|\*/", "", each)),
                     *(names.lines(parameter_role(each, kind)))]
        shown = [word for each in declared.parameters for word in re.findall(r"\w+", each)
                 if word in structs]
        if declared.returns == "status":
            page += heading("RETURN VALUE")
            page += names.lines("DAT_SUCCESS, or a return code of DAT; the object is then as it was before. "
                                "DAT_INSUFFICIENT_RESOURCES if memory or an object of the device is used up."
                                + may_return(declared.text))
        elif declared.returns != "void":
            page += heading("RETURN VALUE") + names.lines(f"{declared.returns}, as described.")
        page += heading("THREADS")
        for each in threads:
            page += names.paragraph(each)
        page += heading("FEATURES") + names.lines(needs)
        for name in dict.fromkeys(shown):
            page += heading("TYPES") if ".SH TYPES" not in page else []
            page += literal(structs[name].split("\n"))
        if rules:
            page += heading("TESTS") + names.lines(
                f"dapl-conformance(1) exercises it by {', '.join(rules)}.")
        return page + see_also([*(("3", each) for each in names.seen), ("1", "dapl-port"),
                                ("1", "dapl-conformance"), ("7", "dapls_ib")])

    def contract_overview(self, manual: str, path: pathlib.Path, header: contract.Header, operations: list,
                          rows: dict, known: set[str]) -> list[str]:
        names = ContractProse(known, "")
        page = self.release.head("dapls_ib", "7", manual) + heading("NAME")
        page += name_lines(["dapls_ib"], "the contract between the common layer and a port, version "
                           f"{header.version}")
        page += heading("SYNOPSIS") + [".nf", bold("#include <dapls_ib.hpp>"), ".fi"]
        page += heading("DESCRIPTION")
        top = re.match(r"(?:// ?[^\n]*\n|//\n)+", path.read_text())[0].split("\n")
        text = "\n".join(re.sub(r"^// ?", "", line) for line in top[2:])
        for paragraph in re.split(r"\n\n", text.strip()):
            if paragraph.startswith("Words used below"):
                page += heading("THREADS")
                for word, told in thread_words(header):
                    page += [".TP", bold(word), *names.lines(told)]
                page += heading("PROGRESS AND ERRORS")
            elif paragraph.startswith("    "):
                page += literal(textwrap.dedent(paragraph).split("\n"))
            else:
                page += names.paragraph(" ".join(paragraph.split()))
        for key, group in rows["groups"].items():
            page += heading(group["title"].upper())
            for each in operations:
                if each.group == key:
                    page += [".TP", f"{bold(each.name)}(3)", *names.lines(each.brief)]
        page += heading("UPCALLS")
        for name, row in rows["upcalls"].items():
            page += [".TP", f"{bold(name)}(3)", *names.lines(row["brief"])]
        return page + see_also([("1", "dapl-port"), ("1", "dapl-conformance"),
                                *(("3", name) for name in known)])


class ContractProse(Prose):
    """Sentences of the contract, which call an operation by its name without the prefix."""

    WORDS = re.compile(r"(?P<word>\b[a-z]\w*_\w+\b|\b(?:DAT|DAPL)_\w+|`[^`]+`)(?:\(\))?")

    def word(self, found: re.Match) -> str:
        word = found["word"].strip("`")
        page = next((each for each in (word, f"dapls_ib_{word}") if each in self.pages), None)
        if page is None:
            return bold(word) if word.startswith(("DAT_", "DAPL_")) or "`" in found["word"] else word
        if page == self.own:
            return bold(word)
        self.seen.append(page)
        return f"{bold(page)}(3)"


def may_return(text: tuple[str, ...]) -> str:
    """The sentences about errors."""
    found = re.findall(r"May return [^.]*\.", " ".join(text))
    return "".join(f" {each}" for each in found)


OWN_OBJECTS = {
    "hca": "the adapter's device", "pd": "a protection domain", "mr": "a memory region",
    "cq": "a completion queue", "qp": "a queue pair", "srq": "a shared receive queue",
    "mw": "a memory window", "cr": "a connection request", "listener": "a listener",
    "wr": "a posted operation",
}
COMMON_OBJECTS = {
    "adapter": "an open adapter", "endpoint": "an endpoint", "evd": "an event dispatcher",
    "service_point": "a service point", "shared_recv_queue": "a shared receive queue",
    "work_queue": "the posted operations of one direction of an endpoint",
}


def parameter_role(declared: str, kind: str | None) -> str:
    """Whose the object is, and how long."""
    words = re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", declared))
    mine = next((word for word in map(str.lower, words) if word in OWN_OBJECTS), None)
    theirs = next((word for word in words if word in COMMON_OBJECTS), None)
    if kind is not None:
        return f"See TYPES. {'The callee fills it.' if 'const' not in words else 'Valid during the call.'}"
    if theirs is not None:
        return f"{COMMON_OBJECTS[theirs].capitalize()}: an object of the common layer, at an address that stays."
    if mine is not None:
        null = " It may be null." if "*" in declared and "segments" not in words else ""
        return (f"{OWN_OBJECTS[mine].capitalize()}, as the port's types have it: the common layer owns the memory, "
                f"at an address that stays.{null}")
    if "*" in declared or ("&" in declared and "const" in words):
        return "The caller's, valid during the call."
    if "&" in declared:
        return "The caller's; the call stores what it says there."
    return "By value."


def thread_words(header: contract.Header) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for line in header.words:
        word, _, text = line.strip().partition(" ")
        if line.startswith("  ") and not line.startswith("   "):
            found.append((word, text.strip()))
        elif found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
    return found


# ------------------------------------------------------------------------------------ all pages


@dataclasses.dataclass(frozen=True)
class Example:
    about: str  # what the guide says above it
    code: list[str]


def examples(root: pathlib.Path) -> dict[str, list[Example]]:
    """Pieces of the guide, by the pages that show them."""
    pattern = re.compile(r"\n\n(?P<about>(?:(?!\n\n).)+)\n\n<!-- shown by (?P<names>[\w, ]+) -->\n+"
                         r"```c\n(?P<code>.*?)```", re.S)
    found: dict[str, list[Example]] = {}
    for guide in sorted((root / "docs/programming").glob("*.md")):
        for piece in pattern.finditer(guide.read_text()):
            # Of a list, the last item stands above the code.
            about = re.split(r"(?m)^- ", piece["about"].replace("**", ""))[-1]
            if "CHECK(" in piece["code"]:
                about = f"{about.strip().removesuffix(':').removesuffix('.')}. CHECK ends the program when a " \
                        "call fails; the example hello.c has it."
            code = textwrap.dedent(piece["code"]).rstrip().split("\n")
            for name in piece["names"].split(", "):
                found.setdefault(name, []).append(Example(" ".join(about.split()), code))
    return found


def leads_elsewhere(lines: list[str]) -> bool:
    """Whether a page is a name for another one."""
    return lines[0].startswith(".so ")


def all_pages(release: Release, parts: list[str], root: pathlib.Path = ROOT) -> dict[str, list[str]]:
    """File names with the lines of the pages."""
    pages = Pages(release, root)
    if "dat" in parts:
        old: dict[str, described_calls.Call] = {}
        for name in ("udat.h", "dat.h", "dat_registry.h"):
            old |= described_calls.read_header(root / "include/dat" / name).calls
        pages.call_pages(dat(root), old)
    if "am" in parts:
        pages.call_pages(active_messages(root), None)
    if "contract" in parts:
        pages.contract_pages()
    unknown = set(pages.examples) - {name.rpartition(".")[0] for name in pages.made}
    if unknown and "dat" in parts:
        raise described_calls.HeaderError(f"docs/programming names pages that there are not: {unknown}")
    return {name: tidy(lines) for name, lines in pages.made.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="0", help="the kit's")
    parser.add_argument("--date", default="1970-01-01", help="of the release")
    parser.add_argument("--part", action="append", default=[], choices=("dat", "am", "contract"))
    parser.add_argument("--list", action="store_true", help="print the names of the pages and stop")
    parser.add_argument("--output", type=pathlib.Path, help="folder to write them to")
    options = parser.parse_args()
    try:
        pages = all_pages(Release(options.version, options.date), options.part)
    except (described_calls.HeaderError, contract.ContractError) as error:
        print(error, file=sys.stderr)
        return 1
    if options.list:
        print("\n".join(sorted(pages)))
        return 0
    for name, lines in pages.items():
        head = [] if leads_elsewhere(lines) else [HEAD]
        (options.output / name).write_text("\n".join([*head, *lines]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
