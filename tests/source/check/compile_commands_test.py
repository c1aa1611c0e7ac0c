#!/usr/bin/env python3
"""compile_commands_test.py ROOT BUILD: an editor with clangd finds a command for each source, also for those that the
build compiles several at a time (BUILD/clangd, which .clangd names)."""

import json
import pathlib
import shlex
import sys
import unittest

ROOT, BUILD = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
PRODUCT = ("roce", "pmd", "verbs_shim", "apps")


class Commands(unittest.TestCase):
    def setUp(self):
        entries = json.loads((BUILD / "clangd" / "compile_commands.json").read_text(encoding="utf-8"))
        self.commands = {(pathlib.Path(entry["directory"]) / entry["file"]).resolve(): entry for entry in entries}

    def test_each_source_of_the_product_has_one(self):
        sources = [path for top in PRODUCT for path in (ROOT / top).rglob("*.cc")]
        self.assertGreater(len(sources), 400)
        portable = ROOT / "apps/portable"
        if not any(path.parent == portable for path in self.commands):  # a build that makes no tarball, as with sanitizers
            sources = [path for path in sources if path.parent != portable]
        self.assertEqual([], [str(path.relative_to(ROOT)) for path in sources if path not in self.commands])

    def test_it_compiles_that_source(self):
        for source, entry in self.commands.items():
            self.assertTrue(source.exists(), source)
            words = shlex.split(entry["command"])
            directory = pathlib.Path(entry["directory"])
            self.assertIn(source, [(directory / word).resolve() for word in words if not word.startswith("-")])

    def test_clangd_is_told_of_them(self):
        self.assertIn("CompilationDatabase: build/clangd", (ROOT / ".clangd").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
