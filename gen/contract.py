# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The transport contract, read from its header and from its table.

The header contract/dapls_ib.hpp is what binds: signatures, features and thread words are read from
it. The table dapls_ib.toml adds a sentence and the cases of the suite. `differences` holds one
against the other.
"""

import dataclasses
import pathlib
import re
import tomllib

import port_toml

# The callers of an operation, and where they call from. The header's text of each operation has one
# of these words.
THREAD_WORDS = {
    "control": "control",
    "hot": "hot",
    "fence": "fence",
    "any": "any thread",
    "waiter": "one thread at a time",
    "upcall": "upcall",
}
NEVER_BLOCKS = {"hot", "any", "upcall"}
ROW_KEYS = {"brief", "rules"}  # of an operation or upcall
OPTIONAL_KEYS = {"lane", "shared", "faults"}
LANES = ("none", "control", "polling", "requests", "receives")
# The lanes of operations whose rows name none. Others of a thread word run beside one another by
# rules of their own.
LANE_OF_THREAD = {"control": "control", "fence": "control", "any": "none"}
GROUP_KEYS = {"title", "file", "next", "tests", "guide"}


class ContractError(Exception):
    """Header or table cannot be read."""


@dataclasses.dataclass(frozen=True)
class Declared:
    """An operation or upcall as the header declares it."""

    name: str
    returns: str
    parameters: tuple[str, ...]  # as written, with names where there are any
    text: tuple[str, ...]  # the comment, without its marks
    group: str  # title of the part of the header it stands in; '' for upcalls
    features: tuple[str, ...]  # that need it; () when it concerns every port

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the parameters."""
        return tuple(without_name(parameter) for parameter in self.parameters)

    @property
    def signature(self) -> str:
        return f"{self.returns} ({', '.join(self.types)})"


@dataclasses.dataclass(frozen=True)
class Header:
    """The whole header."""

    version: int
    features: dict[str, str]  # name and comment, in the order in which they are worth writing
    judged: tuple[str, ...]  # the features that make cases of the suite claimed
    types: tuple[str, ...]  # that every port names
    optional_types: tuple[str, ...]  # that a port names when it has operations for them
    groups: tuple[str, ...]
    operations: dict[str, Declared]
    upcalls: dict[str, Declared]
    words: tuple[str, ...]  # the comment at the top that explains the thread words
    traits: tuple[str, ...]  # the lines of port_traits


@dataclasses.dataclass(frozen=True)
class Operation:
    """An operation of the contract: header and table together."""

    name: str
    brief: str
    group: str
    thread: str
    may_block: bool
    features: tuple[str, ...]
    rules: tuple[str, ...]
    declared: Declared
    lane: str  # what one thread at a time uses during the operation
    shared: bool  # several threads may be in it with qp_params::concurrent_posts

    @property
    def required(self) -> bool:
        return not self.features


# ------------------------------------------------------------------------------------ C++, a bit


def normal(text: str) -> str:
    """The text with one space where C++ needs it, no others, and no comments."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r"\s*([&*])\s*", r" \1", text)
    text = re.sub(r"\* (?=[&*])", "*", text)
    text = re.sub(r"\s*,\s*", ", ", text)
    return re.sub(r"([&*])(?=\w)", r"\1", text)


def split_parameters(text: str) -> tuple[str, ...]:
    """Splits at the commas that are in no bracket of their own."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, "<": 1, "[": 1, ")": -1, ">": -1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return tuple(normal(part) for part in parts if part.strip())


def without_name(parameter: str) -> str:
    """The type of a parameter: `DAT_COUNT &depth` is `DAT_COUNT &`, `const cq &` is itself."""
    found = re.fullmatch(r"(.*?)([A-Za-z_]\w*)", parameter)
    if found is None:
        return parameter
    before = re.sub(r"\b(const|volatile|struct|enum|class|unsigned|signed)\b", "", found[1])
    named = before.strip() != "" and not before.rstrip().endswith("::")
    return found[1].strip() if named else parameter


def declaration(text: str) -> tuple[str, str, tuple[str, ...]]:
    """Return type, name and parameters of one function declaration."""
    pattern = r"\s*(?:static |inline |constexpr )*(.+?)\b(dapls?_\w+)\s*\((.*)\)"
    found = re.match(pattern, text, re.S)
    if found is None:
        raise ContractError(f"cannot read the declaration '{normal(text)}'")
    parameters = re.sub(r"/\*\s*(\w+)\s*\*/", r"\1", found[3])  # names of unused parameters
    return normal(found[1]), found[2], split_parameters(parameters)


def up_to_closing(text: str, opening: int) -> int:
    """The place at which the round bracket that opens at `opening` is closed, exclusive."""
    depth = 0
    for place in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    raise ContractError(f"a bracket stays open in '{normal(text[opening:opening + 80])}…'")


# --------------------------------------------------------------------------------- the header


def body_of(text: str, opening: str, closing: str = "\n};") -> str:
    found = re.search(opening + r"(.*?)" + closing, text, re.S)
    if found is None:
        raise ContractError(f"there is no '{opening}' in the header")
    return found[1]


def feature_tags(comment: list[str]) -> tuple[tuple[str, ...], list[str]]:
    """`[a, b] Text` names the features that need an operation."""
    found = re.match(r"\[([\w, ]+)\]\s*(.*)", comment[0]) if comment else None
    if found is None:
        return (), comment
    rest = [found[2], *comment[1:]] if found[2] else comment[1:]
    return tuple(re.split(r",\s*", found[1])), rest


def operation(comment: list[str], code: str, group: str) -> Declared:
    """A required operation is deleted in the header; an optional one has a body and names, at the
    beginning of its comment, the features that need it."""
    tags, text = feature_tags([re.sub(r"^\s*/// ?", "", line).strip() for line in comment])
    end = up_to_closing(code, code.index("("))
    returns, name, parameters = declaration(code[:end])
    required = code[end:].startswith(" = delete;")
    if required and tags:
        raise ContractError(f"{name}: is deleted in the header, so it is required; its comment"
                            " shall name no features")
    if not required and not tags:
        raise ContractError(f"{name}: has a body in the header, so it is optional; its comment"
                            " shall begin with the features that need it: /// [feature] …")
    return Declared(name, returns, parameters, tuple(text), group, tags)


def read_operations(body: str) -> tuple[list[str], list[Declared]]:
    """Reads static functions below `///` comments; functions that follow without a blank line share
    the text.
    """
    groups: list[str] = []
    found: list[Declared] = []
    comment: list[str] = []
    lines = body.split("\n")
    for place, line in enumerate(lines):
        title = re.fullmatch(r"// --- (.+?) ---", line.strip())
        if title:
            groups.append(title[1])
        if not line.strip():
            comment = []
        elif line.strip().startswith("///"):
            comment.append(line)
        elif line.strip().startswith("static ") and groups:
            code = " ".join(each.strip() for each in lines[place:])
            found.append(operation(comment, code, groups[-1]))
    return groups, found


def read_upcalls(part: str) -> list[Declared]:
    found = []
    pattern = r"((?:^///[^\n]*\n)+)(?:template <[^\n]*>\n)?(^[^/\n][^;{]*?\bdapls?_\w+\([^;]*\));"
    for match in re.finditer(pattern, part, re.M):
        comment = [re.sub(r"^/// ?", "", line) for line in match[1].strip().split("\n")]
        tags, text = feature_tags(comment)
        returns, name, parameters = declaration(match[2])
        found.append(Declared(name, returns, parameters, tuple(text), "", tags))
    return found


def by_name(declared: list[Declared]) -> dict[str, Declared]:
    names = {}
    for each in declared:
        if each.name in names:
            raise ContractError(f"the header declares {each.name} twice")
        names[each.name] = each
    return names


def read_header(path: pathlib.Path) -> Header:
    text = path.read_text()
    struct = body_of(text, r"struct dapls_ib : Types, port_traits \{")
    groups, operations = read_operations(struct)
    upcalls = body_of(text, r"\n// -+ upcalls\n", r"\n// -{20,} ")
    flags = body_of(text, r"struct features \{")
    comments = {name: " ".join(text.replace("///<", "").split()) for name, text
                in re.findall(r"bool (\w+) = false;((?:\s*///< [^\n]*)+)", flags)}
    judged = body_of(flags, "", r"\n    // Savings of time")
    words = body_of(text, r"// Words used below\n", r"\n//\n")
    return Header(
        version=port_toml.contract_version(path),
        features={name: comments.get(name, "") for name in port_toml.known_features(path)},
        judged=tuple(re.findall(r"bool (\w+) = false;", judged)),
        types=tuple(re.findall(r"using typename Types::(\w+);", struct)),
        optional_types=tuple(re.findall(r"using (\w+) = typename \w+<Types>::type;", struct)),
        groups=tuple(groups),
        operations=by_name(operations),
        upcalls=by_name(read_upcalls(upcalls)),
        words=tuple(re.sub(r"^// ?", "", line) for line in words.split("\n")),
        traits=tuple(line.removeprefix("    ") for line in
                     body_of(text, r"struct port_traits \{").strip("\n").split("\n")),
    )


@dataclasses.dataclass(frozen=True)
class Change:
    """An entry of the change log."""

    text: str
    obliges: tuple[str, ...] = ()  # obligations that no compiler asks for


def cases_in(text: str) -> tuple[str, ...]:
    """The cases of the suite that a text names."""
    return tuple(re.findall(r"\b[A-Z]+-\d+\b", text))


def change_log(path: pathlib.Path) -> dict[int, Change]:
    """What each version of the contract changed, by its number."""
    log: dict[int, list[str]] = {}
    body = body_of(path.read_text(), r"\n/// Change log\b[^\n]*\n", r"\n#define DAPLS_IB_VERSION")
    for line in body.split("\n"):
        entry = re.match(r"///\s+(?:(\d+)  |(- ))?(.*)", line)
        if entry and entry[1]:
            log[int(entry[1])] = [entry[3]]
        elif entry and entry[2] and log:
            log[max(log)].append(entry[3])
        elif entry and log:
            log[max(log)][-1] += " " + entry[3]
    return {number: Change(texts[0], tuple(texts[1:])) for number, texts in log.items()}


def thread_word(declared: Declared, header: Header) -> str | None:
    """The thread word in the header's text of an operation, following `Otherwise as post_send`."""
    text = " ".join(declared.text)
    for word in ("Control", "Hot", "Fence"):
        if re.search(rf"(?:^|[.;:] ){word}\b", text):
            return word.lower()
    other = re.search(r"(?:^|[.;:] )(?:Otherwise a|A)s (?:dapls_ib_)?(\w+)", text)
    if other and f"dapls_ib_{other[1]}" in header.operations:
        return thread_word(header.operations[f"dapls_ib_{other[1]}"], header)
    if re.search(r"\bAny thread\b", text):
        return "any"
    return "waiter" if "One thread at a time" in text else None


# ------------------------------------------------------------------------------------ the table


def read_table(path: pathlib.Path) -> dict:
    try:
        with path.open("rb") as stream:
            table = tomllib.load(stream)
    except tomllib.TOMLDecodeError as error:
        raise ContractError(f"{path}: {error}") from error
    for part in ("groups", "operations", "upcalls"):
        if part not in table:
            raise ContractError(f"{path}: there is no '{part}'")
    return table


def wrong_keys(what: str, entry: dict, wanted: set[str], optional: set[str]) -> list[str]:
    return ([f"{what}: the table says nothing about '{key}'" for key in sorted(wanted - set(entry))]
            + [f"{what}: the table has an unknown '{key}'"
               for key in sorted(set(entry) - wanted - optional)])


def header_faults(header: Header) -> list[str]:
    """What the text of an operation does not say, or says wrongly."""
    found = []
    for name, declared in header.operations.items():
        if thread_word(declared, header) is None:
            found.append(f"{name}: the header's text has no thread word; it shall say one of "
                         "Control, Hot, Fence, Any thread, One thread at a time")
        found += [f"{name}: the header has no feature '{feature}'"
                  for feature in declared.features if feature not in header.features]
    return found


def set_differences(what: str, table: dict, header: dict) -> list[str]:
    return ([f"{name}: is {what} of the header, but not in the table"
             for name in header if name not in table]
            + [f"{name}: is {what} of the table, but not in the header"
               for name in table if name not in header])


def row_faults(table: dict) -> list[str]:
    found = []
    for name, group in table["groups"].items():
        found += wrong_keys(f"group {name}", group, GROUP_KEYS, set())
    for name, row in {**table["operations"], **table["upcalls"]}.items():
        found += wrong_keys(name, row, ROW_KEYS, OPTIONAL_KEYS)
    return found


def lane_faults(header: Header, table: dict) -> list[str]:
    found = []
    for name, row in table["operations"].items():
        thread = thread_word(header.operations[name], header) if name in header.operations else None
        if thread is not None and row.get("lane", LANE_OF_THREAD.get(thread)) not in LANES:
            found.append(f"{name}: the table shall say in which lane it is, one of"
                         f" {', '.join(LANES)}")
    return found


def row_to_add(name: str, header: Header) -> str:
    """A row that the table lacks; brief and rules are left to the author."""
    kind = "upcalls" if name in header.upcalls else "operations"
    return f'add to the table:\n    [{kind}.{name}]\n    brief = "…"\n    rules = []'


def differences(header: Header, table: dict) -> list[str]:
    """What header and table do not agree about, a line each, and rows that are missing."""
    titles = {group.get("title"): name for name, group in table["groups"].items()}
    listed = {**table["operations"], **table["upcalls"]}
    return (set_differences("a group", titles, dict.fromkeys(header.groups))
            + set_differences("an operation", table["operations"], header.operations)
            + set_differences("an upcall", table["upcalls"], header.upcalls)
            + header_faults(header) + row_faults(table) + lane_faults(header, table)
            + [row_to_add(name, header) for name in {**header.operations, **header.upcalls}
               if name not in listed])


def operations(header: Header, table: dict) -> list[Operation]:
    """What header and table say together, in the table's order. Both shall agree."""
    wrong = differences(header, table)
    if wrong:
        raise ContractError("the contract and its table disagree:\n  " + "\n  ".join(wrong))
    groups = {group["title"]: name for name, group in table["groups"].items()}
    found = []
    for name, row in table["operations"].items():
        declared = header.operations[name]
        thread = thread_word(declared, header) or ""
        found.append(Operation(name, row["brief"], groups[declared.group], thread,
                               thread not in NEVER_BLOCKS, declared.features,
                               tuple(row["rules"]), declared,
                               row.get("lane", LANE_OF_THREAD.get(thread, "")),
                               row.get("shared", False)))
    return found


def short_name(name: str) -> str:
    """The name without its prefix, as fault plans have it."""
    return re.sub("^dapl(s_ib|s|)_", "", name)


def faults_of_rows(table: dict) -> list[dict]:
    """The faults that rows name, as tests/fault_port/faults.toml has them."""
    return [{"plan": f"{short_name(name)}:{fault}", "red": row["rules"]}
            for name, row in {**table["operations"], **table["upcalls"]}.items()
            for fault in row.get("faults", ())]
