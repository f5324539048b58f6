#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""tools/make-site makes a site of which no link leads nowhere, and notices one that does."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIP = 77


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        keep = tempfile.TemporaryDirectory(prefix="site-")
        cls.addClassCleanup(keep.cleanup)
        cls.tree = pathlib.Path(keep.name) / "tree"
        # The documents may lead to any part of the tree.
        shutil.copytree(ROOT, cls.tree, symlinks=True,
                        ignore=shutil.ignore_patterns("build*", ".git", ".check", "__pycache__"))
        cls.site = pathlib.Path(keep.name) / "site"

    def make(self) -> subprocess.CompletedProcess:
        return subprocess.run([self.tree / "tools/make-site", self.site], capture_output=True, text=True,
                              check=False)

    def test_links(self) -> None:
        made = self.make()
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        for page, text in (("index.html", "docs/programming/objects.html"), ("README.html", "docs/layers.svg"),
                           ("man/dat_evd_wait.3.html", 'href="dat_evd_dequeue.3.html"'),
                           ("man/dat-info.1.html", "DESCRIPTION"), ("docs/contract.html", "dapls_ib_post_send")):
            self.assertIn(text, (self.site / page).read_text(), page)
        # A site that is there is made anew, and nothing else is removed.
        readme = self.tree / "README.md"
        whole = readme.read_text()
        for link in ("(docs/nowhere.md)", "(docs/versions.md#no-such-heading)"):
            readme.write_text(f"{whole}\n[a link]{link}\n")
            made = self.make()
            self.assertEqual(made.returncode, 1, link)
            self.assertIn("README.html: docs/", made.stderr)
        readme.write_text(whole)
        (self.site / "style.css").unlink()
        made = self.make()
        self.assertEqual(made.returncode, 2)
        self.assertIn("something else", made.stderr)
        self.assertTrue((self.site / "index.html").exists())


def main() -> int:
    for program in ("cmark-gfm", "mandoc"):
        if not shutil.which(program):
            print(f"skipped: {program} is missing, of Debian's package of that name")
            return SKIP
    return 0 if unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
