#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""dapl-port's output stays as it was, word for word: golden/ has the text of a port of each style.

A change of a template, of the contract or of a table shows its effect on ports there. When that is
meant, `python3 tests/gen/golden_test.py --renew` writes the files anew; commit them with the
change.
"""

import difflib
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True

from trees import ROOT  # noqa: E402

sys.path.insert(0, str(ROOT / "gen"))
import skeleton  # noqa: E402

GOLDEN = pathlib.Path(__file__).with_name("golden")
HEAD = """\
SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

All files that dapl-port writes for: {options}
tests/gen/golden_test.py compares them; its --renew writes this file.
The licence lines below are those of the port, not of this file: REUSE-IgnoreStart
"""
TAIL = "\nREUSE-IgnoreEnd\n"
# The name of each golden, with the options, as one types them, and their meaning.
PORTS = {
    "bare": ("new acme", {}),
    "bare-own": ("new acme --cm own --keys table --claims (all features)",
                 {"cm": "own", "keys": "table", "claims": "all"}),
    "sim": ("new acme --style sim", {"style": "sim"}),
    "polled": ("new acme --style polled", {"style": "polled"}),
    "callback": ("new acme --style callback", {"style": "callback"}),
    "verbs-like": ("new acme --style verbs-like", {"style": "verbs-like"}),
}
# A project of its own has another build file, which differs for these.
ALONE = ("bare", "sim")


def rendered(name: str) -> str:
    kit = skeleton.Kit(ROOT)
    options, answers = PORTS[name]
    if answers.get("claims") == "all":
        answers = {**answers, "claims": tuple(kit.header.features)}
    port = skeleton.Port("acme", "Acme Networks", "LicenseRef-Acme", **answers)
    files = skeleton.files_of(kit, port)
    if name in ALONE:
        alone = skeleton.files_of(kit, port, alone=True)
        files["meson.build, with --directory"] = alone["meson.build"]
    parts = [f"\n==== {file}\n\n{text}" for file, text in sorted(files.items())]
    return HEAD.format(options=options) + "".join(parts) + TAIL


def renew() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for name in PORTS:
        (GOLDEN / f"{name}.txt").write_text(rendered(name))


class Goldens(unittest.TestCase):
    def test_each_style_is_as_it_was(self) -> None:
        for name in PORTS:
            with self.subTest(name=name):
                path = GOLDEN / f"{name}.txt"
                changed = "".join(difflib.unified_diff(
                    path.read_text().splitlines(keepends=True),
                    rendered(name).splitlines(keepends=True), str(path), "as it is now", n=1))
                if changed:
                    self.fail(f"is this what is meant? Then python3 {__file__} --renew\n{changed}")

    def test_every_style_has_one(self) -> None:
        self.assertEqual({answers.get("style", "bare") for _, answers in PORTS.values()},
                         {*skeleton.STYLES})
        self.assertEqual({path.stem for path in GOLDEN.iterdir()}, {*PORTS})


if __name__ == "__main__":
    if sys.argv[1:] == ["--renew"]:
        renew()
    else:
        unittest.main()
