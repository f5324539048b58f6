# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Find sanitizer reports in a program's output, and tell reports about our code from others."""

import dataclasses
import os
import pathlib
import re

_REPORT = re.compile(
    r"(==\d+==\s*ERROR: (?:Address|Leak)Sanitizer.*"
    r"|WARNING: ThreadSanitizer.*"
    r"|.*: runtime error: .*"
    r"|(?:==\d+==)?\s*FATAL: \w+Sanitizer.*)"
)
_LEAK = re.compile(r"^(?:Direct|Indirect) leak of ")
_FRAME = re.compile(r"^\s+#\d+ ")
_SUMMARY = re.compile(r"^SUMMARY: \w+Sanitizer")
_RULER = re.compile(r"^=+$")


@dataclasses.dataclass
class Finding:
    """One report: its first line, and the stack frames below it."""

    title: str
    frames: list[str]


def environment(base: dict[str, str]) -> dict[str, str]:
    """Settings for a preloaded run time: findings are read from the output, so no exit status.

    Foreign code keeps no frame pointers: only the slow unwinder sees whose call a leak came from.
    """
    wanted = {
        "ASAN_OPTIONS": "exitcode=0:color=never:detect_leaks=1:fast_unwind_on_malloc=0",
        "LSAN_OPTIONS": "exitcode=0:color=never",
        "TSAN_OPTIONS": "exitcode=0:color=never:second_deadlock_stack=1",
        "UBSAN_OPTIONS": "color=never:print_stacktrace=1",
    }
    return {name: ":".join(filter(None, [base.get(name), options]))
            for name, options in wanted.items()}


def _walk(text: str):
    """Each line with whether it belongs to a report, and the finding that it opens, if any."""
    inside = False
    ends_without_summary = False
    for line in text.splitlines():
        opened = None
        match = _REPORT.search(line)
        if match:
            opened = Finding(match.group(1).strip(), [])
            ends_without_summary = "runtime error:" in line
            inside = True
        elif inside and _LEAK.match(line):
            opened = Finding(line.strip(), [])
        elif inside and ends_without_summary and not (_FRAME.match(line) or not line.strip()):
            inside = bool(_SUMMARY.match(line))
        yield line, inside or bool(_RULER.match(line) and len(line) > 60), opened
        if _SUMMARY.match(line):
            inside = False


def find(text: str) -> list[Finding]:
    """All findings of an output. A leak report counts once for each leak, not for its heading."""
    findings: list[Finding] = []
    for line, inside, opened in _walk(text):
        if opened:
            findings.append(opened)
        elif inside and findings and _FRAME.match(line):
            findings[-1].frames.append(line.strip())
    leaks = any(_LEAK.match(finding.title) for finding in findings)
    return [finding for finding in findings
            if not (leaks and "LeakSanitizer: detected" in finding.title)]


def strip(text: str) -> str:
    """The output without the reports, so that their words are not taken for the program's."""
    return "\n".join(line for line, inside, _ in _walk(text) if not inside)


def own_frames(libraries: list[str], source_root: pathlib.Path | None) -> re.Pattern[str]:
    """What a frame of ours looks like: one of our libraries or sources, or code already unloaded.

    Only the registry unloads anything in these programs, so a frame without a module is
    counted as ours rather than lost.
    """
    names = [re.escape(os.path.basename(library)) for library in libraries]
    parts = [rf"/{name}\b" for name in names]
    parts.append(r"(?:^|[\s(])(?:\.\./)+(?:dat|common|transports|osd|include)/")
    if source_root:
        parts.append(re.escape(str(source_root)) + "/")
    parts.append(r"<unknown module>")
    return re.compile("|".join(parts))


def split(findings: list[Finding], ours: re.Pattern[str]) -> tuple[list[Finding], list[Finding]]:
    """Findings with a frame of ours, and the others. One without any frame counts as ours."""
    own, foreign = [], []
    for finding in findings:
        mine = not finding.frames or any(ours.search(frame) for frame in finding.frames)
        (own if mine else foreign).append(finding)
    return own, foreign
