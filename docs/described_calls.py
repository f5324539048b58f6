# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The calls that a C header declares, with the comments that describe them.

A comment is `/** ... */`. It begins with sentences; then come @param[in], @param[out], @param[in,out],
@retval, @return and @note, each up to the next one or an empty line; paragraphs after these tell of
Threads and Rule. Functions that follow without a blank line share the comment, and the calls between
two lines `/* ==== Title ==== */` are one group.
"""

import dataclasses
import pathlib
import re

REFERS = re.compile(r"(?:Otherwise|Returns|and) as \w+\(\)")
TAG = re.compile(r"^@(param|retval|return|note)(?:\[([a-z,]+)\])?(?: +|$)")


class HeaderError(Exception):
    """A header says something that cannot be read."""


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter as it is declared, and the text about it."""

    name: str
    declared: str  # with its type: "DAT_COUNT *nmore"
    direction: str = ""  # "in", "out", "in,out"; "" where the header does not say
    text: str = ""


@dataclasses.dataclass(frozen=True)
class Text:
    """What a comment says."""

    description: tuple[str, ...] = ()  # paragraphs; one of lines with bars is a table
    parameters: tuple[tuple[str, str, str], ...] = ()  # direction, name, text
    answers: tuple[tuple[str, str], ...] = ()  # of @retval: code and text
    returns: str = ""  # of @return
    notes: tuple[str, ...] = ()
    more: str = ""  # what stands behind the tags, but for threads and rule
    threads: str = ""
    rule: str = ""

    @property
    def brief(self) -> str:
        """The first sentence, without its full stop."""
        first = self.description[0] if self.description else ""
        return re.split(r"[.:](?: |$)", first, maxsplit=1)[0]


@dataclasses.dataclass(frozen=True)
class Call:
    """A function, or a macro that is called like one."""

    name: str
    returns: str
    parameters: tuple[Parameter, ...]
    text: Text
    group: str
    is_macro: bool = False
    shares: tuple[str, ...] = ()  # names of all calls under the comment, its own too


def lines_of(comment: str) -> list[str]:
    """The text of a comment, without its marks."""
    inner = re.sub(r"^/\*\*|\*/$", "", comment.strip())
    return [re.sub(r"^\s*\* ?", "", line).rstrip() for line in inner.strip().split("\n")]


def flowing(lines: list[str]) -> str:
    """Lines joined, unless they are a table."""
    if any(line.startswith("|") for line in lines):
        return "\n".join(lines)
    return " ".join(" ".join(lines).split())


def blocks_of(comment: str) -> list[str]:
    """Paragraphs, and each tag as one."""
    blocks: list[list[str]] = [[]]
    for line in lines_of(comment):
        # Tags may stand within a line: "Polls once. @retval DAPL_AM_OK complete."
        for part in re.split(r"(?<=[.\w]) (?=@(?:param|retval|return)\b)", line):
            part = part.strip()
            if not part or TAG.match(part):
                blocks.append([])
            if part:
                blocks[-1].append(part)
    return [flowing(block) for block in blocks if block]


def cut(text: str, word: str) -> tuple[str, str]:
    """Splits off what stands behind "Word:"."""
    before, found, after = text.partition(f"{word}: ")
    return (before.strip(), after.strip()) if found else (text, "")


def read_text(comment: str) -> Text:
    description, parameters, answers, notes, more = [], [], [], [], []
    returns = threads = rule = ""
    tagged = False
    for block in blocks_of(comment):
        tag = TAG.match(block)
        if tag or not block.startswith("|"):
            before, found = cut(block, "Rule")
            rule = found or rule
            block, found = cut(before, "Threads")
            threads = found.removesuffix(".") or threads
        rest = block[tag.end():].strip() if tag else block
        if tag is None:
            if rest:
                (more if tagged or REFERS.match(rest) else description).append(rest)
            continue
        tagged = True
        if tag[1] == "param":
            names = re.match(r"(?:[\w.]+, )*[\w.]+", rest)
            if names is None:
                raise HeaderError(f"@param without a name: {block}")
            parameters += [(tag[2] or "", name, rest[names.end():].strip())
                           for name in names[0].split(", ")]
        elif tag[1] == "retval":
            code, _, told = rest.partition(" ")
            answers.append((code.rstrip("."), told.strip()))
        elif tag[1] == "return":
            returns = rest
        else:
            notes.append(rest)
    return Text(tuple(description), tuple(parameters), tuple(answers), returns, tuple(notes),
                " ".join(more), threads, rule)


def split_arguments(text: str) -> list[str]:
    """Splits at the commas that stand in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def name_in(declared: str) -> str:
    """The name in the declaration of a parameter."""
    if declared == "...":
        return declared
    return re.search(r"(\w+)(?:\[\w*\])?$", declared)[1]


def parameters_of(declared: list[str], text: Text) -> tuple[Parameter, ...]:
    told = {name: (direction, words) for direction, name, words in text.parameters}
    found = []
    for each in declared:
        name = name_in(each)
        direction, words = told.get(name, ("", ""))
        found.append(Parameter(name, each, direction, words))
    return tuple(found)


def macro_types(names: list[str], body: str, text: Text) -> list[str]:
    """A macro's parameters with the types to which it casts them, or else that its text names."""
    told = {name: words for _, name, words in text.parameters}
    found = []
    for name in names:
        cast = re.search(rf"\(([\w ]+\**)\) \({name}\)", body)
        named = re.match(r"([A-Z]\w+(?: \*)?)(?::|,| of |$)", told.get(name, ""))
        if f"DAT_IB_CONTEXT_ARG_({name})" in body:
            kind = "DAT_CONTEXT"
        else:
            kind = cast[1] if cast else named[1] if named else ""
        found.append((kind if kind.endswith("*") else f"{kind} ") + name if kind else name)
    return found


FUNCTION = re.compile(
    r"(?P<returns>[\w \*]*?[\w\*] ?)(?:DAT_API )?(?P<name>dat\w*|dapl_am_\w+)\((?P<parameters>[^;{]*)\)\s*[;{]")
MACRO = re.compile(r"#define (?P<name>dat_\w+)\((?P<parameters>[^)]*)\)(?P<body>(?:[^\n]*\\\n)*[^\n]*)")


def calls_below(code: str, text: Text, group: str) -> list[Call]:
    """The calls in the lines up to the next blank one or comment."""
    code = re.sub(r"(?m)^(?:#if|#endif|#pragma|__attribute__).*\n", "", code)
    macro = MACRO.match(code)
    if macro:
        body = macro["body"].replace("\\\n", " ")
        names = split_arguments(macro["parameters"].replace("\\\n", " "))
        return [Call(macro["name"], "DAT_RETURN",
                     parameters_of(macro_types(names, body, text), text), text, group, True,
                     (macro["name"],))]
    found = []
    while function := FUNCTION.match(code):
        if function["returns"].lstrip().startswith("typedef"):
            break
        returns = function["returns"].replace("static __inline__ ", "").strip()
        declared = split_arguments(" ".join(function["parameters"].split()))
        declared = [] if declared == ["void"] else declared
        found.append(Call(function["name"], returns, parameters_of(declared, text), text, group))
        code = code[function.end():].lstrip("\n")
    names = tuple(each.name for each in found)
    return [dataclasses.replace(each, shares=names) for each in found]


OTHERWISE = re.compile(r"\bOtherwise as (\w+)\(\)\.\s*")
SECTION = re.compile(r"/\* [=-]{4} (?P<group>.*?) [=-]+ \*/\n"
                     r"|(?P<comment>/\*\*(?!<)(?:[^*]|\*(?!/))*\*/)\n(?P<code>(?:[^\n]+\n)*)")


def with_what_it_refers_to(call: Call, calls: dict[str, Call]) -> Call:
    """Takes what a call does not say itself from the one that "Otherwise as" names."""
    other = OTHERWISE.search(call.text.more)
    if other is None:
        return call
    if other[1] not in calls:
        raise HeaderError(f"{call.name}: there is no {other[1]}")
    base = with_what_it_refers_to(calls[other[1]], calls)
    told = {each.name: each for each in base.parameters}
    own = {code for code, _ in call.text.answers}
    text = dataclasses.replace(
        call.text,
        answers=tuple(each for each in base.text.answers if each[0] not in own) + call.text.answers,
        more=OTHERWISE.sub("", call.text.more).strip(),
        threads=call.text.threads or base.text.threads,
        rule=call.text.rule or base.text.rule)
    return dataclasses.replace(call, text=text, parameters=tuple(
        each if each.text else dataclasses.replace(told[each.name], declared=each.declared)
        if each.name in told else each for each in call.parameters))


@dataclasses.dataclass(frozen=True)
class Described:
    """What a header has."""

    calls: dict[str, Call]
    introductions: dict[str, tuple[str, ...]]  # paragraphs at the beginning of a group
    aliases: dict[str, str]  # names that stand for a call
    types: dict[str, str]  # structures, unions and enumerations, as they are declared


def read_types(text: str, others: str) -> dict[str, str]:
    """Each structure, union and enumeration by the name that programs have for it, by a typedef there or
    in a header beside it."""
    found: dict[str, str] = {}
    names = {f"{kind} {tag}": name for kind, tag, name in
             re.findall(r"(?m)^typedef (struct|union) (\w+)\s+(\w+);", text + others)}
    pattern = re.compile(r"(?m)^(?P<comment>/\*\*(?:[^*]|\*(?!/))*\*/\n)?(?P<code>(?P<typedef>typedef )?"
                         r"(?P<kind>struct|union|enum) (?P<tag>\w+) \{\n(?:(?!\}).*\n)*\}(?: (?P<name>\w+))?;)")
    for match in pattern.finditer(text):
        tag = f"{match['kind']} {match['tag']}"
        found[match["name"] or names.get(tag) or match["tag"]] = (match["comment"] or "") + match["code"]
    return found


def read_header(path: pathlib.Path) -> Described:
    """All calls of a header, in its order."""
    text = path.read_text()
    found: list[Call] = []
    introductions: dict[str, tuple[str, ...]] = {}
    group = ""
    for match in SECTION.finditer(text):
        if match["group"]:
            group = match["group"].removeprefix("Calls: ")
            continue
        # A comment of one line may stand between functions: it begins a text of its own.
        told = read_text(match["comment"])
        code = re.split(r"(?m)^(?=/\*)", match["code"])[0]
        if code:
            found += calls_below(code, told, group)
        elif group:
            introductions[group] = introductions.get(group, ()) + told.description
    calls = {each.name: each for each in found}
    aliases = dict(re.findall(r"(?m)^#define (dat_\w+) +(dat_\w+)$", text))
    return Described({name: with_what_it_refers_to(each, calls) for name, each in calls.items()},
                     introductions, aliases,
                     read_types(text, "".join(each.read_text() for each in sorted(path.parent.glob("*.h")))))


PLAIN = re.compile(r"(?:typedef [^{(]*?\b(?P<type>[A-Z]\w+);|typedef \w+ \(\*?(?P<pointer>[A-Z]\w+)\)[^;{]*;"
                   r"|#define (?P<constant>DAT_\w+)[ ]+[^\\\n]+)[^\n]*$", re.M)


def plain_types(text: str) -> dict[str, list[str]]:
    """Types that are a name for another type, and constants, as lines of the header, by its parts."""
    found: dict[str, list[str]] = {}
    group = ""
    # Lines for Windows stand before those for other systems, by other spellings of one type.
    text = re.sub(r"/\* -+ Windows -+ \*/.*?(?=/\* ----)", "", text, flags=re.S)
    for line in text.split("\n"):
        title = re.match(r"/\* ==== (?:Calls: )?(.*?) =+ \*/", line)
        group = title[1] if title else group
        plain = PLAIN.match(line)
        # With leading underscores: a name inside the header.
        if plain and not line.endswith("_H_"):
            found.setdefault(group or "Numbers and memory", []).append(line)
    return found


def names_of_types(groups: dict[str, list[str]]) -> list[str]:
    """Those of plain_types, without the constants."""
    found = [PLAIN.match(line) for lines in groups.values() for line in lines]
    return [each["type"] or each["pointer"] for each in found if not each["constant"]]


def reading_rules(path: pathlib.Path) -> list[str]:
    """The points of "How to read ..." at the top of a header."""
    top = path.read_text().split("*/", 2)
    lines = lines_of(next(part for part in top if "@section" in part) + "*/")
    points: list[str] = []
    for line in lines[next(n for n, line in enumerate(lines) if line.startswith("@section")) + 1:]:
        if line.startswith("@section"):
            break
        if line.startswith("- "):
            points.append(line[2:])
        elif points and line.strip():
            points[-1] += " " + line.strip()
    return points


def read_types_of_cpp(text: str) -> dict[str, str]:
    """Structures and enumerations of the contract, as they are declared, with the comments above."""
    pattern = re.compile(r"(?m)^(?P<code>(?:/// [^\n]*\n)*(?:struct|class|enum class) (?P<name>\w+)"
                         r"(?: : [\w:]+)? \{\n(?:(?!\}).*\n)*\};)")
    return {found["name"]: found["code"] for found in pattern.finditer(text)}
