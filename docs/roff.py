# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Lines of a manual page, in the macros of man(7) that groff and mandoc both know."""

import re
import textwrap

WIDTH = 72


def escaped(text: str) -> str:
    return text.replace("\\", "\\e").replace("'", "\\(aq")


def code_line(text: str) -> str:
    """A line that stands as it is."""
    line = escaped(text).replace("-", "\\-")
    return f"\\&{line}" if line[:1] in (".", "\\") else line


def bold(text: str) -> str:
    return f"\\fB{escaped(text)}\\fP"


def wrapped(text: str) -> list[str]:
    """Text that is roff already, in lines of which none is a request."""
    lines = textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
    return [f"\\&{line}" if line[:1] in (".", "'") else line for line in lines]


def literal(lines: list[str]) -> list[str]:
    return [".PP", ".RS 4", ".nf", *(code_line(line) if line.strip() else ".sp" for line in lines),
            ".fi", ".RE"]


def heading(text: str) -> list[str]:
    return [f".SH {text}" if " " not in text else f'.SH "{text}"']


def title(name: str, section: str, date: str, version: str, manual: str) -> list[str]:
    return [f'.TH {name.upper()} {section} {date} "dapl {version}" "{manual}"', ".nh", ".ad l"]


def until_break(lines: list[str]) -> tuple[list[str], list[str]]:
    """The first paragraph, and the rest."""
    end = next((at for at, line in enumerate(lines) if re.match(r"\.(?:PP|TP|RS|SH)\b", line)), len(lines))
    return lines[:end], lines[end:]


def tidy(lines: list[str]) -> list[str]:
    """Leaves out breaks that another one follows, or that follow a heading."""
    kept: list[str] = []
    for at, line in enumerate(lines):
        after = lines[at + 1] if at + 1 < len(lines) else ".SH"
        needless = line == ".PP" and (re.match(r"\.(?:SH|TP|PP|RE)\b", after) or
                                      re.match(r"\.(?:SH|RS)\b", kept[-1] if kept else ".SH"))
        if not needless:
            kept.append(line)
    return kept
