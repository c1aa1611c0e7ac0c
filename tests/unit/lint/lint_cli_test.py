#!/usr/bin/env python3
"""lint_cli_test.py UROCE_LINT CAPTURES RULES_DOC: the program as its users call it.

Exit statuses, options, JSON, a reader that leaves, damaged files, and the table of rules in the documentation.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import checks  # noqa: E402
from checks import expect  # noqa: E402

TOOL, CAPTURES, DOC = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
FAULTY = CAPTURES / "host-peer-rc.pcap"
CLEAN = CAPTURES / "rc-mix.pcap"


def lint(*arguments, stdin=None):
    return subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True, stdin=stdin, check=False)


def exit_statuses():
    expect(lint(CLEAN).returncode == 0, "a clean capture gives 0")
    result = lint(FAULTY)
    expect(result.returncode == 1, "findings give 1", result)
    expect(f"{FAULTY}:31: error: " in result.stdout and "[atomic-alignment]" in result.stdout, "findings are named", result)
    expect(lint("/nonexistent").returncode == 2, "no file gives 2")
    expect(lint(__file__).returncode == 2, "not a capture gives 2")
    expect(lint().returncode == 2, "no argument gives 2")
    expect(lint("--only", "no-such-rule", CLEAN).returncode == 2, "an unknown rule gives 2")
    expect(lint(CLEAN, FAULTY).returncode == 1, "the worst of several counts")
    warnings = CAPTURES / "rc-rnr.pcap"
    expect(lint(warnings).returncode == 0, "warnings alone give 0")
    expect(lint("--fail-on", "warning", warnings).returncode == 1, "unless they shall count")
    expect(lint("--fail-on", "note", warnings).returncode == 1, "what is worse than a note counts with it")


def options():
    quiet = lint("--quiet", FAULTY)
    expect(quiet.returncode == 1 and quiet.stdout == "" and quiet.stderr == "", "--quiet prints nothing", quiet)
    only = json.loads(lint("--json", "--only", "icrc,bth-version", FAULTY).stdout)
    expect(set(only["counts"]) == {"icrc", "bth-version"}, "--only")
    rest = lint("--ignore", "icrc,bth-version", "--ignore", "pkey-changed,atomic-alignment", FAULTY)
    expect(rest.returncode == 0, "--ignore", rest)
    few = lint("--findings", "2", "--fail-on", "warning", CAPTURES / "rc-rnr.pcap")
    expect("5 more [nak-after-rnr]" in few.stdout, "--findings counts the others", few)
    summary = lint("--summary", CAPTURES / "rc-loss-acks.pcap")
    expect("timeout 3 (after 66.414 to 68.023 ms)" in summary.stdout, "--summary has timeouts", summary)
    with open(CLEAN, "rb") as file:
        expect(lint("-", stdin=file).returncode == 0, "- is standard input")


def json_output():
    for path in sorted(CAPTURES.glob("*.pcap")):
        report = json.loads(lint("--json", path).stdout)
        expect(report["readable"] and report["frames"] == report["packets"] + report["faulty"] + report["other"] + report["cut"],
               f"the totals of {path.name} add up")
        for finding in report["findings"]:
            expect({"rule", "severity", "frame", "flow", "text", "why"} == set(finding), "a finding has its members")
        packets = sum(flow["packets"] for connection in report["connections"] for flow in connection)
        expect(packets == report["packets"], f"every packet of {path.name} is in a flow")
        for connection in report["connections"]:
            for flow in connection:
                expect(sum(flow["opcodes"].values()) == flow["packets"], "opcodes add up")
    report = json.loads(lint("--json", CAPTURES / "rc-loss-send-middle.pcap").stdout)
    requests = report["connections"][0][0]["requests"]
    expect(requests["retransmitted"] == 4 and requests["back_for_nak"] == 1 and requests["naks_sequence"] == 1,
           f"retransmissions are counted: {requests}")


def damaged_files(directory):
    data = CLEAN.read_bytes()
    cut = directory / "cut.pcap"
    cut.write_bytes(data[:-10])
    result = lint(cut)
    expect(result.returncode == 2 and "byte " in result.stderr, "a cut file gives 2 and the offset", result)
    expect("71 frames" in result.stdout, "what stands in front of the cut is judged", result)
    report = json.loads(lint("--json", cut).stdout)
    expect(not report["readable"] and report["error_offset"] > 0, "JSON says so too")
    (directory / "empty.pcap").write_bytes(b"")
    expect(lint(directory / "empty.pcap").returncode == 2, "an empty file gives 2")


def reader_that_leaves(directory):
    many = directory / "many.pcap"
    data = FAULTY.read_bytes()
    many.write_bytes(data + data[24:] * 500)
    with subprocess.Popen([TOOL, "--findings", "100000", many], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        complaint = process.stderr.read()
        process.wait()
    expect(complaint == b"" and process.returncode in (1, -13), "SIGPIPE is not worth a message")


def rules_in_the_documentation():
    documented = dict(re.findall(r"^\| `([a-z0-9-]+)` \| (note|warning|error) \|", DOC.read_text(encoding="utf-8"), re.MULTILINE))
    known = {line.split()[0]: line.split()[1] for line in lint("--rules").stdout.splitlines()}
    expect(documented == known, f"doc/lint.md and --rules agree: {set(documented.items()) ^ set(known.items())}")
    expect(sum(severity == "error" for severity in known.values()) >= 25, "there are at least 25 kinds of errors")


def main():
    exit_statuses()
    options()
    json_output()
    with tempfile.TemporaryDirectory() as name:
        damaged_files(pathlib.Path(name))
        reader_that_leaves(pathlib.Path(name))
    rules_in_the_documentation()
    print(f"{checks.done} checks")


if __name__ == "__main__":
    main()
