#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Make a manual page out of its Markdown in docs/man.

Of Markdown it knows what those files use: a head with title and section, headings, paragraphs,
definitions, tables, numbered lists, code that is indented by four or fenced, bold, italics and code in a line. It needs no other
program, so that who builds has all pages.
"""

import argparse
import pathlib
import re
import sys

import roff


class PageError(Exception):
    """The Markdown has something that this program does not know."""


INLINE = re.compile(r"\\(?P<plain>[^A-Za-z0-9\s])|\*\*(?P<bold>(?:\\.|[^*\\])+)\*\*|\*(?P<italic>(?:\\.|[^*\\])+)\*"
                    r"|`(?P<code>[^`]+)`|\[(?P<link>[^\]]+)\]\((?P<address>[^)]+)\)")


def unescaped(text: str) -> str:
    return re.sub(r"\\([^A-Za-z0-9\s])", r"\1", text)


def inline(text: str) -> str:
    """A line's text as roff."""
    pieces, end = [], 0
    for found in INLINE.finditer(text):
        pieces.append(roff.escaped(text[end:found.start()]))
        end = found.end()
        if found["plain"]:
            pieces.append(roff.escaped(found["plain"]))
        elif found["bold"] or found["code"]:
            pieces.append(f"\\fB{roff.escaped(found['code'] or unescaped(found['bold']))}\\fP".replace("-", "\\-"))
        elif found["italic"]:
            pieces.append(f"\\fI{roff.escaped(unescaped(found['italic']))}\\fP")
        else:
            pieces.append(roff.escaped(found["link"]))
    return "".join([*pieces, roff.escaped(text[end:])])


def rows_of(lines: list[str]) -> list[list[str]]:
    """The cells of a table, without its head."""
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in lines]
    return rows[2:]


def blocks_of(lines: list[str]) -> list[list[str]]:
    """Runs of lines between blank ones; code and definitions keep the blank lines within."""
    blocks: list[list[str]] = []
    inside = False
    for line in lines:
        if not line.strip():
            inside = False
            continue
        indented = line.startswith("    ")
        if inside or (indented and blocks and goes_on(blocks[-1])):
            if not inside:
                blocks[-1].append("")
            blocks[-1].append(line)
        else:
            blocks.append([line])
        inside = True
    return blocks


def goes_on(block: list[str]) -> bool:
    """Whether an indented line after a blank one belongs to it: of a definition, or of code."""
    return is_definition(block) or block[0].startswith("    ")


def is_definition(block: list[str]) -> bool:
    return len(block) > 1 and block[1].startswith(":   ")


def body(lines: list[str]) -> list[str]:
    """Blocks of text as roff, each begun by a break."""
    page = []
    for block in blocks_of(lines):
        if block[0].startswith("# "):
            page += roff.heading(block[0][2:])
            page += body(block[1:])
        elif is_definition(block):
            page += [".TP", inline(block[0])]
            inner = [block[1][4:], *(line[4:] for line in block[2:])]
            made = body(inner)
            if made[:1] != [".PP"]:
                raise PageError(f"a definition begins with no text: {block[0]}")
            first, rest = roff.until_break(made[1:])
            page += [*first, *([".RS", *rest, ".RE"] if rest else [])]
        elif block[0].startswith("    "):
            page += roff.literal([line[4:] for line in block])
        elif block[0].startswith("|"):
            for row in rows_of(block):
                page += [".TP", inline(row[0]), *roff.wrapped(inline(" ".join(row[1:])))]
            page += [".PP"]
        elif block[0].startswith("```") and block[-1] == "```":
            page += roff.literal(block[1:-1])
        elif re.match(r"\d+\. ", block[0]):
            for item in re.split(r"\n(?=\d+\. )", "\n".join(block)):
                number, _, text = item.partition(" ")
                page += [f".IP {number} 3", *roff.wrapped(inline(" ".join(text.split())))]
            page += [".PP"]
        elif re.match(r"[-*+] |```|<(?!!--)|>|##", block[0]):
            raise PageError(f"this is not among what pages use: {block[0]}")
        else:
            page += [".PP", *roff.wrapped(inline(" ".join(block)))]
    return page


def page_of(text: str, version: str, date: str) -> str:
    head = re.match(r"(?:<!--.*?-->\s*)?---\n(.*?)\n---\n(.*)", text, re.S)
    if head is None:
        raise PageError("there is no head with title, section and header")
    fields = dict(re.findall(r"(?m)^(\w+): (.*)$", head[1]))
    lines = roff.title(fields["title"], fields["section"], date, version, fields["header"])
    return "\n".join(roff.tidy([*lines, *body(head[2].split("\n"))])) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True, help="the kit's")
    parser.add_argument("--date", required=True, help="of the release")
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("page", type=pathlib.Path)
    options = parser.parse_args()
    try:
        options.page.write_text(page_of(options.source.read_text(), options.version, options.date))
    except PageError as error:
        print(f"{options.source}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
