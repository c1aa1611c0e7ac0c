#!/usr/bin/env python3
"""What ./check's table says of a run: every case counts once, and nothing is left out or done again without its name."""

import json
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "scripts" / "test_totals.py"
JUNIT = """<testsuites>
<testsuite name="uroce.uroce:unit / many.Ring" tests="3">
<testcase name="Turns" status="run"/>
<testcase name="Wraps" status="run"><skipped message="file.cc:9&#10;no memory that can be shared"/></testcase>
<testcase name="Fills" status="notrun"/>
</testsuite>
<testsuite name="uroce.uroce:unit / broken.Ring" tests="2">
<testcase name="Turns" status="run"/>
<testcase name="Wraps" status="run"><failure message="no"/></testcase>
</testsuite>
</testsuites>"""
RUNS = [
    {"name": "uroce:unit / many", "result": "OK", "stdout": "[==========]"},
    {"name": "uroce:unit / broken", "result": "FAIL", "stdout": ""},
    {"name": "uroce:unit / crashed", "result": "ERROR", "stdout": "skipped: half of it\n"},
    {"name": "uroce:veth / wire", "result": "SKIP", "stdout": "hello\nskipped: no veth interfaces here\n"},
    {"name": "uroce:veth / silent", "result": "SKIP"},
    {"name": "uroce:interop / rows", "result": "OK",
     "stdout": "row_1  passed\nrepeated: row_2: its virtual card was stuck\nrepeated: row_3: it failed at the first try\n"},
    {"name": "uroce:sim / part", "result": "OK", "stdout": "skipped: pictures: no Matplotlib\n"},
]


def said(base, *words):
    return subprocess.run([sys.executable, "-B", SCRIPT, *words, base], capture_output=True, text=True, check=True).stdout


def main():
    with tempfile.TemporaryDirectory() as folder:
        base = f"{folder}/run"
        pathlib.Path(base + ".junit.xml").write_text(JUNIT, encoding="utf-8")
        pathlib.Path(base + ".json").write_text("".join(json.dumps(run) + "\n" for run in RUNS), encoding="utf-8")
        # many: 1 of 3 passed. broken: 1 of 2. rows, part: one each.
        assert said(base) == "4 2 5 2\n", said(base)
        assert said(base, "--failed") == "broken\ncrashed\n", said(base, "--failed")
        named = said(base, "--named").splitlines()
        assert named == [
            "skipped: many Ring.Wraps: no memory that can be shared",
            "skipped: many Ring.Fills",
            "skipped: wire: no veth interfaces here",
            "skipped: silent: it does not say why",
            "skipped: part: pictures: no Matplotlib",
            "repeated: rows: row_2: its virtual card was stuck",
            "repeated: rows: row_3: it failed at the first try",
        ], named


main()
