#!/usr/bin/env python3
"""No rule without a source: each way in which the scripts and rule_sources.ini can disagree is an error that says where."""

import pathlib
import tempfile
import unittest

import rules_table

SCRIPT = """# An ACK completes a WRITE.
#
# Rule [ack]: an ACK
# completes it.
qp 1 rc
"""
SOURCES = """# Groups.

[ack]
says = An ACK | acknowledges.
kind = implementation
where = rxe_comp.c, `check_ack()`; rc-write.pcap

[wait]
says = Nothing is sent meanwhile.
kind = ours
where = a reason
"""


class Page(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for topic, (_, *code) in rules_table.TOPICS.items():
            (self.root / "tests/conformance/scripts" / topic).mkdir(parents=True)
            for name in code:
                self.write(name if "." in name else name + "/code", "")
        self.write("tests/conformance/pcap/rc-write.pcap", "")
        self.write("tests/conformance/rule_sources.ini", SOURCES)
        self.script("acks/write", SCRIPT)
        self.script("rnr/waits", SCRIPT.replace("[ack]", "[wait, ack]"))

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text, encoding="utf-8")

    def script(self, name, text):
        self.write(f"tests/conformance/scripts/{name}.rdrill", text)

    def sources(self, old, new):
        self.assertIn(old, SOURCES)
        self.write("tests/conformance/rule_sources.ini", SOURCES.replace(old, new))

    def refused(self, words):
        with self.assertRaises(SystemExit) as caught:
            rules_table.page(self.root)
        self.assertIn(words, str(caught.exception))

    def test_groups_have_a_row_and_rules_lead_to_it(self):
        page = rules_table.page(self.root)
        self.assertIn(
            '| <a id="rule-ack"></a>ack | An ACK \\| acknowledges. | implementation: rxe_comp.c, `check_ack()`; rc-write.pcap |\n', page
        )
        self.assertIn("| An ACK completes a WRITE. | [wait](#rule-wait), [ack](#rule-ack): an ACK completes it. | held | [waits](", page)

    def test_kinds_are_counted(self):
        page = rules_table.page(self.root)
        for row in ("| implementation | 1 | 1 |\n", "| ours | 1 | 1 |\n", "| paper | 0 | 0 |\n", "| all | 2 | 2 |\n"):
            self.assertIn(row, page)

    def test_a_rule_without_a_group(self):
        for header in ("Rule: an ACK", "Rule []: an ACK", "Rule [ack] an ACK", "Rule [ack,wait]: an ACK", "Ruling [ack]: an ACK"):
            self.script("acks/write", SCRIPT.replace("Rule [ack]: an ACK", header))
            self.refused("acks/write.rdrill: the header has to say")

    def test_a_rule_without_words(self):
        self.script("acks/write", "# An ACK completes a WRITE.\n#\n# Rule [ack]:\nqp 1 rc\n")
        self.refused("acks/write.rdrill: the header has to say")

    def test_a_group_without_a_source(self):
        self.script("acks/write", SCRIPT.replace("[ack]", "[ack, credits]"))
        self.refused("acks/write.rdrill: rule_sources.ini does not say where the rule [credits] comes from")

    def test_a_source_that_nothing_names(self):
        self.sources("[wait]", "[credits]\nsays = a\nkind = ours\nwhere = b\n[wait]")
        self.refused("no script names [credits]")

    def test_a_source_twice(self):
        self.sources("[wait]", "[ack]\nsays = a\nkind = ours\nwhere = b\n[wait]")
        self.refused("ack")

    def test_a_source_that_lacks_something(self):
        self.sources("where = a reason\n", "")
        self.refused("[wait] has to have")
        self.sources("where = a reason\n", "where =\n")
        self.refused("[wait] has to have")

    def test_a_kind_that_does_not_exist(self):
        self.sources("kind = ours", "kind = hearsay")
        self.refused("[wait] has the kind hearsay")

    def test_a_clause_that_no_public_source_names(self):
        self.sources("kind = ours\nwhere = a reason", "kind = specification\nwhere = IBA C1-1")
        self.refused("[wait] has to say which public source names the clause")
        self.sources("kind = ours\nwhere = a reason", "kind = specification\nwhere = IBA C1-1, as named in a file")
        self.assertIn("| specification | 1 | 1 |", rules_table.page(self.root))

    def test_a_capture_that_is_not_there(self):
        self.sources("rc-write.pcap", "rc-read.pcap")
        self.refused("[ack] names rc-read.pcap")


if __name__ == "__main__":
    unittest.main()
