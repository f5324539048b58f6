#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Count two habits that make comments hard to read, and hold a limit on each.

  heads     a pronoun stands where a noun belongs: "that of", "those that", "the same", "what is" and
            their like. Counted for each 1,000 words.
  openings  comments whose first sentence has neither a subject nor a verb with an object: "Of what was
            posted last.", "The same for a batch.", "When the peer is gone." An editor shows that
            sentence alone. Counted as a share of all comments, in percent.

Patterns find both and know no grammar: some finds are good sentences, which is why the limits are
not 0. A sentence that begins with a preposition or a conjunction counts unless a comma in it shows
where a main clause begins.

A comment is a run of lines of one indentation, or text behind code that may go on below; in Python
a docstring too. Licence lines, separators, tables, examples of code and names of namespaces are
left out. Files are C, C++, their templates, Python, TOML and meson.build.

Each room has the limits of LIMIT, or its own ones in RATCHET, which may fall and never rise.
"""

import argparse
import ast
import dataclasses
import fnmatch
import io
import pathlib
import random
import re
import sys
import tokenize

ROOMS = ("am", "bench", "common", "conformance", "contract", "dat", "findings", "gen", "include",
         "osd", "port_support", "tests", "tools", "transports/libfabric", "transports/libfabric_rdm",
         "transports/soft",
         "transports/template", "transports/verbs")
LIMIT = (3.0, 4.0)  # heads for 1,000 words, openings in percent
RATCHET: dict[str, tuple[float, float]] = {
    "am": (5.0, 2.5),
}
# Words of comment at commit b0185ca, before comments were rewritten. The share that is left is printed,
# since a sentence that is deleted is not a sentence that is mended.
WORDS_BEFORE = 121468

# These are not ours, or written to be wrong.
LEFT_OUT = ("tests/gen/version2_port/*", "tests/doctest/*",
            "tests/fuzz/corpus/*", "build*", ".*")
C_LIKE = {".c", ".cpp", ".h", ".hpp"}
HASH_LIKE = {".py", ".toml"}
HASH_NAMES = {"meson.build", "meson_options.txt"}

HEADS = re.compile(
    r"\b(?:"
    r"(?:that|those) (?:of|which|who|whom|whose)"
    r"|those (?:that|in|on|at|with|without|from|for|by|to|it|they)"
    r"|those(?= *[.,;:)])"
    r"|ones? (?:that|which|who|whose)|the ones?|ones"
    r"|the same"
    r"|of (?:it|them|one|that|these|this)"
    r"(?= *(?:$|[.,;:)]| (?:is|are|was|were|has|have|had|can|may)))"
    r"|what (?:has|have|had|is|are|was|were|it|they|does|do|did|can|may|must|comes?|came|goes|went"
    r"|belongs?|stands?|stood|remains?|remained|follows?|holds?|waits?|makes?|takes?|took|needs?"
    r"|gets?|got)"
    r")\b", re.I)
# What such a sentence tells is in the declaration, or in the sentence before.
ALWAYS_OPEN = re.compile(
    r"(?:of|that of|those|the same|the ones?|ones|one (?:of|that|which|who|whose)|not|nor|but|and"
    r"|or|also|likewise|whose|which|who|whom|such|than|else|as (?:above|before|there|here)"
    r"|only (?:after|as|at|before|by|for|from|if|in|of|on|to|under|when|where|while|with)"
    r"|what (?:has|have|had|is|are|was|were|it|they|does|do|did|can|may|must|comes?|came|goes|went"
    r"|belongs?|stands?|stood|remains?|follows?|holds?|waits?|makes?|takes?|took|needs?|gets?|got)"
    r")\b", re.I)
# A sentence without a comma has no main clause after them.
OPEN_ALONE = re.compile(
    r"(?:about|after|against|among|as|at|because|before|behind|beside|besides|between|beyond|by|during"
    r"|except|for|from|if|in|inside|into|like|on|once|otherwise|over|per|since|so|through|to|under"
    r"|unless|until|up to|upon|via|whatever|when|whenever|where|wherever|while|with|within|without"
    r")\b(?![-`])", re.I)
WORD = re.compile(r"[A-Za-z][\w'-]*")
DIRECTIVE = re.compile(r"(?:SPDX-License|NOLINT|clang-format|clang-tidy|IWYU|type: ignore|pylint"
                       r"|noqa|shellcheck|!/|-\*-|namespace\b|fallthrough\b)")
SENTENCE_END = re.compile(r"[.:;!?](?:\s|$)")


@dataclasses.dataclass
class Comment:
    path: str
    line: int
    kind: str  # the marker
    column: int
    lines: list[str] = dataclasses.field(default_factory=list)

    def text(self) -> str:
        return " ".join(line.strip() for line in self.prose()).strip()

    def prose(self) -> list[str]:
        """The lines without tables, examples of code and separators."""
        return [line for line in self.lines if is_prose(line)]

    def first_sentence(self) -> str:
        text = self.text()
        end = SENTENCE_END.search(text)
        return text[:end.start()] if end else text

    def is_elliptic(self) -> bool:
        first = re.sub(r"^[^\w`]+", "", self.first_sentence())
        return bool(ALWAYS_OPEN.match(first)
                    or (OPEN_ALONE.match(first) and "," not in first))


def is_prose(line: str) -> bool:
    bare = line.strip()
    if not WORD.search(bare) or DIRECTIVE.match(bare):
        return False
    if re.match(r"(-{3}|={3})|.*(-{3}|={3})$", bare) or "|" in bare or re.search(r"\S {3,}\S", bare):
        return False
    if re.search(r"[;{}]$", bare) or re.match(r"[-\w.:>]+\(.*\)$", bare) or re.match(r"[#$] ?\w", bare):
        return False
    return not re.match(r"\s{3,}\S+ {2,}", line) and not re.match(r"\w+:? = ", bare)


# ------------------------------------------------------------------------------- finding comments

C_TOKEN = re.compile(
    r'R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''
    r"|(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)", re.S)
HASH_TOKEN = re.compile(
    r"'''.*?'''|\"\"\".*?\"\"\"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|(?P<line>#[^\n]*)", re.S)
JINJA = re.compile(r"/\*\{(.*?)\}\*/|/\*[%#].*?[%#]\*/", re.S)


def without_jinja(text: str) -> str:
    """A template's text with names in place of insertions, and no control lines."""
    def plain(found: re.Match[str]) -> str:
        return "NAME" if found[1] else re.sub(r"[^\n]", "", found[0])
    return JINJA.sub(plain, text)


def raw_comments(text: str, token: re.Pattern[str]) -> list[tuple[int, int, bool, str]]:
    """(line, column, whether code stands before it, text) of each."""
    found = []
    for each in token.finditer(text):
        comment = each["line"] or (each.groupdict().get("block"))
        if not comment:
            continue
        begin = text.rfind("\n", 0, each.start()) + 1
        number = text.count("\n", 0, each.start()) + 1
        behind = bool(text[begin:each.start()].strip())
        end = text.find("\n", each.end())
        after = text[each.end():end if end >= 0 else len(text)].strip()
        if comment.startswith("/*") and (after or (behind and len(WORD.findall(comment)) < 3)):
            continue  # /* name */ or /* in */ of an argument
        found.append((number, each.start() - begin, behind, comment))
    return found


def joined(path: str, raw: list[tuple[int, int, bool, str]]) -> list[Comment]:
    comments: list[Comment] = []
    last_line = -1
    for line, column, behind, text in raw:
        if text.startswith("/*"):
            inner = re.sub(r"^/\*+[<!]?|\*+/$", "", text)
            rows = [re.sub(r"^\s*\* ?", "", row) for row in inner.split("\n")]
            comments.append(Comment(path, line, "/*", column, rows))
            last_line = -1
            continue
        kind, rest = re.match(r"(///<|///|//!|//|#+)(.*)", text).groups()
        old = comments[-1] if comments else None
        if old and line == last_line + 1 and old.kind == kind and old.column == column and not behind:
            old.lines.append(rest)
        else:
            comments.append(Comment(path, line, kind, column, [rest]))
        last_line = line
    return comments


def docstrings(path: str, text: str) -> list[Comment]:
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            doc = ast.get_docstring(node)
            if doc:
                found.append(Comment(path, node.body[0].lineno, '"""', node.body[0].col_offset,
                                     doc.split("\n")))
    return found


def python_comments(path: str, text: str) -> list[Comment]:
    raw = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            raw.append((line, column, bool(token.line[:column].strip()), token.string))
    return joined(path, raw) + docstrings(path, text)


def comments_in(path: str, text: str) -> list[Comment]:
    name = path.rsplit("/", 1)[-1]
    for ending in (".in", ".j2"):
        if name.endswith(ending):
            name = name[:-len(ending)]
            text = without_jinja(text)
    suffix = pathlib.PurePath(name).suffix
    if suffix == ".py":
        found = python_comments(path, text)
    elif suffix in C_LIKE:
        found = joined(path, raw_comments(text, C_TOKEN))
    elif suffix in HASH_LIKE or name in HASH_NAMES or name.endswith(".meson.build"):
        found = joined(path, raw_comments(text, HASH_TOKEN))
    else:
        return []
    return [each for each in found if each.prose()]


def room_of(path: str) -> str | None:
    return next((room for room in ROOMS if path.startswith(room + "/")), None)


def comments_of(root: pathlib.Path) -> dict[str, list[Comment]]:
    rooms: dict[str, list[Comment]] = {room: [] for room in ROOMS}
    for room in ROOMS:
        for path in sorted((root / room).rglob("*")):
            where = path.relative_to(root).as_posix()
            if path.is_file() and not any(fnmatch.fnmatch(part, pattern) for pattern in LEFT_OUT
                                          for part in (where, *where.split("/"))):
                rooms[room] += comments_in(where, path.read_text(errors="replace"))
    return rooms


# ---------------------------------------------------------------------------------------- counting

@dataclasses.dataclass
class Count:
    words: int = 0
    heads: int = 0
    comments: int = 0
    openings: int = 0

    def add(self, comment: Comment) -> None:
        text = comment.text()
        self.words += len(WORD.findall(text))
        self.heads += len(HEADS.findall(text))
        self.comments += 1
        self.openings += comment.is_elliptic()

    def heads_rate(self) -> float:
        return 1000 * self.heads / max(self.words, 1)

    def openings_share(self) -> float:
        return 100 * self.openings / max(self.comments, 1)

    def __str__(self) -> str:
        return (f"{self.words:7} words {self.heads:5} heads {self.heads_rate():6.1f} per 1,000 "
                f"{self.comments:6} comments {self.openings:5} openings {self.openings_share():5.1f} %")


def count(comments: list[Comment]) -> Count:
    total = Count()
    for comment in comments:
        total.add(comment)
    return total


def above(room: str, found: Count) -> list[str]:
    limits = RATCHET.get(room, LIMIT)
    wrong = []
    if found.heads_rate() > limits[0]:
        wrong.append(f"{room}: {found.heads_rate():.2f} pronoun heads per 1,000 words of comment, "
                     f"at most {limits[0]} are right")
    if found.openings_share() > limits[1]:
        wrong.append(f"{room}: {found.openings_share():.2f} % of the comments open without a subject "
                     f"or a verb with an object, at most {limits[1]} % are right")
    return wrong


def print_places(comments: list[Comment]) -> None:
    for comment in comments:
        heads = HEADS.findall(comment.text())
        if comment.is_elliptic():
            print(f"{comment.path}:{comment.line}: opening: {comment.first_sentence()}")
        if heads:
            print(f"{comment.path}:{comment.line}: heads {heads}: {comment.text()}")


def log_lines(root: pathlib.Path) -> list[tuple[str, int, str]]:
    """Finds the texts that are logged or printed for a person: texts with a blank between words."""
    found = []
    logged = re.compile(r"(?:dapl_log|dat_log|log_line|fprintf|refuse\w*)\((.{0,80}?)"
                        r'((?:"(?:\\.|[^"\\\n])*"\s*(?:PRI\w+\s*)?)+)', re.S)
    for path in sorted(root.rglob("*.cpp")):
        where = path.relative_to(root).as_posix()
        if room_of(where) in (None, "tests"):
            continue
        text = path.read_text(errors="replace")
        for each in logged.finditer(text):
            if re.search(r"[a-z]+ [a-z]+", each[2]):
                found.append((where, text.count("\n", 0, each.start()) + 1,
                              "".join(re.findall(r'"((?:\\.|[^"\\])*)"', each[2]))))
    return found


def draw(root: pathlib.Path, rooms: dict[str, list[Comment]], seed: int, how_many: int) -> None:
    """Prints comments drawn by lot with the code below each, and half as many log lines."""
    print(f"seed {seed}")
    lot = random.Random(seed)
    every = [each for room in rooms.values() for each in room]
    for comment in lot.sample(every, min(how_many, len(every))):
        lines = (root / comment.path).read_text(errors="replace").splitlines()
        begin = comment.line - 1
        print(f"\n{comment.path}:{comment.line}",
              *lines[begin:begin + len(comment.lines) + 4], sep="\n")
    logged = log_lines(root)
    for path, line, text in lot.sample(logged, min(how_many // 2, len(logged))):
        print(f"\n{path}:{line}: {text}")


# --------------------------------------------------------------------------------------- self-test

ELLIPTIC = (
    "Of what it holds of its shared queue.",
    "Not where another thread has waited for it.",
    "The same for one that one of them has passed before.",
    "of the queue pairs beyond",
    "When the caller has popped what was acknowledged.",
    "Of a request that was taken slowly.",
    "Those that the slow path does not have to see.",
    "Of one into what a context names.",
    "Of what was posted last.",
    "Where all of them send: a consumer that polls there serves the same sockets.",
    "By the thread that waits.",
    "Under the lock of the pool",
    "With nothing posted.",
    "One that was closed.",
)
PLAIN = (
    "Sets the limits on receives held from the SRQ.",
    "Fails if another thread is waiting for the lock.",
    "When the caller has popped a packet, the window opens by one.",
    "With a shared receive queue, the endpoint has no receives of its own.",
    "One packet of the train.",
    "In-process pairs need no socket.",
    "Whether the peer has closed.",
)
HEADS_OF = {
    "its length and that of the peer": 1,
    "those that wait, and those of others": 2,
    "the same, for the one that was freed": 2,
    "the length of it": 1,
    "one of them is freed": 1,
    "of these fields": 0,
    "what has been sent": 1,
    "what the peer sent": 0,
    "one of two threads": 0,
}
FILES = {
    "a.hpp": ("// SPDX-License-Identifier: x\n// One head.\n\nint a; ///< of b\n       ///< and c\n"
              "/// Says a.\n/// Says b.\nvoid f(int /* of c */);\n// --- of d ---\n} // namespace x\n"
              'char s[] = "// of it"; /* of an e */\n',
              ["One head.", "of b and c", "Says a. Says b.", "of an e"]),
    "a.py": ('#!/usr/bin/python3\n"""Says a."""\n# of b\nc = "# of c"  # of d\n',
             ["of b", "of d", "Says a."]),
    "meson.build": ("a = '''\n# of a\n'''  # of b\n# of c\n", ["of b", "of c"]),
    "a.hpp.j2": ("/*# of a #*/\n// The /*{ name }*/ port.\n/*% if x %*/\n", ["The NAME port."]),
    "a.md": ("# of a\n", []),
}


def expect(condition: bool, what: object) -> None:
    if not condition:
        sys.exit(f"self-test failed: {what}")


def self_test() -> None:
    for text in ELLIPTIC:
        expect(Comment("", 1, "//", 0, [text]).is_elliptic(), text)
    for text in PLAIN:
        expect(not Comment("", 1, "//", 0, [text]).is_elliptic(), text)
    for text, wanted in HEADS_OF.items():
        expect(len(HEADS.findall(text)) == wanted, (text, HEADS.findall(text)))
    for path, (text, wanted) in FILES.items():
        found = [each.text() for each in comments_in(path, text)]
        expect(found == wanted, (path, found))
    expect(len(above("new", Count(1000, 4, 100, 5))) == 2, "limits")
    expect(above("new", Count(1000, 3, 100, 4)) == [], "limits")
    print(f"{len(ELLIPTIC) + len(PLAIN)} openings, {len(HEADS_OF)} phrases and {len(FILES)} files "
          "were judged as they should be")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path, nargs="?", help="top of the source tree")
    parser.add_argument("--list", metavar="FOLDER", help="print each place in this folder or file")
    parser.add_argument("--draw", type=int, metavar="COUNT", 
                        help="print comments drawn by lot, and half as many log lines")
    parser.add_argument("--seed", type=int, help="seed of the lot; printed if it is not given")
    parser.add_argument("--self-test", action="store_true", help="see that the habits are found")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return
    if options.root is None:
        parser.error("which source tree?")
    rooms = comments_of(options.root)
    if options.list:
        folder = options.list.rstrip("/")
        print_places([each for room in rooms.values() for each in room
                      if each.path == folder or each.path.startswith(folder + "/")])
        return
    if options.draw:
        seed = random.randrange(10**6) if options.seed is None else options.seed
        draw(options.root, rooms, seed, options.draw)
        return
    wrong = []
    for room, comments in rooms.items():
        found = count(comments)
        print(f"{room:22}{found}")
        wrong += above(room, found)
    total = count([each for room in rooms.values() for each in room])
    print(f"{'all':22}{total}")
    print(f"{total.words} words of comment, {100 * total.words / WORDS_BEFORE:.1f} % of {WORDS_BEFORE}")
    for line in wrong:
        print(line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
