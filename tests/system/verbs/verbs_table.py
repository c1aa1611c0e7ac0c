#!/usr/bin/env python3
"""doc/reference/verbs-table.md: which test calls which entry point of verbs, and with which states of a queue pair.

    verbs_table.py ROOT            writes ROOT/doc/reference/verbs-table.md
    verbs_table.py ROOT --check    exit 1 when it is not what would be written

Entry points are those of public_symbols.txt, the functions that verbs.h has inline as far as tests call them, and the
commands of librdmacm to the kernel. A test calls what stands in its body, or in a helper of its file whose name stands
there; calls that only the fixture makes count for all tests, and are marked as such.
"""

import collections
import pathlib
import re
import sys
import textwrap

BEGIN = re.compile(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", re.MULTILINE)
HELPER = re.compile(r"^(?:static |inline |constexpr |template <[^\n]*>\n)*[\w:<>*&, ]+?[ *&](\w+)\([^;{]*\) (?:const )?\{", re.MULTILINE)
CALL = re.compile(r"\b(ibv_\w+)\b")
COMMAND = re.compile(r"\bRDMA_USER_CM_CMD_(\w+)\b")
STATE = re.compile(r"\bIBV_QPS_(RESET|INIT|RTR|RTS|SQD|SQE|ERR)\b")
STATES = ("RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR")
SHOWN = 2  # named tests per symbol; the others are only counted
INTRODUCTION = """# Verbs, entry point by entry point

Which test calls what: {public} entry points of libibverbs
([`public_symbols.txt`](../../tests/system/verbs/public_symbols.txt)), {inline} that `verbs.h` has inline, and {commands} commands
with which librdmacm calls the kernel. What each does is in [features.md](../features.md); *refused* stands here where
all of its rows that name it say so.

`tests/system/verbs/verbs_table.py` makes this page of the sources of the tests, and a test fails when it is out of
date. It counts calls by name: a test that calls something need not be about it. What the fixture does for all tests is
not counted to each of them; what only it calls has *fixture*. Programs (`tests/system/programs`) call most of them,
too.
"""


def functions(text):
    """(name, whether it is a test, text) of each test and helper."""
    marks = [(m.start(), f"{m[1]}.{m[2]}", True) for m in BEGIN.finditer(text)]
    marks += [(m.start(), m[1], False) for m in HELPER.finditer(text) if not m[1].startswith("TEST")]
    marks.sort()
    ends = [start for start, _, _ in marks[1:]] + [len(text)]
    return [(name, is_test, text[start:end]) for (start, name, is_test), end in zip(marks, ends)]


def with_helpers(body, helpers):
    """The body, with the bodies of the helpers in its file that it uses, directly or through others."""
    seen, todo, texts = set(), [body], []
    while todo:
        text = todo.pop()
        texts.append(text)
        for word in set(re.findall(r"\b\w+\b", text)) & helpers.keys() - seen:
            seen.add(word)
            todo.append(helpers[word])
    return "\n".join(texts)


def read_tests(folder):
    """Each test's text, and what fixtures and shared helpers call."""
    tests, shared = {}, ""
    for path in sorted(folder.glob("*.cc")) + sorted(folder.glob("*.h")):
        text = re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))
        if not BEGIN.search(text):
            shared += text
            continue
        parts = functions(text)
        helpers = {name: body for name, is_test, body in parts if not is_test}
        for name, is_test, body in parts:
            if is_test:
                tests[name] = with_helpers(body, helpers)
    return tests, shared


def refused(features):
    """Names that features.md lists as refused, and nowhere as working."""
    verdict = collections.defaultdict(set)
    for line in features.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) < 4:
            continue
        for name in CALL.findall(cells[1]):
            verdict[name].add(cells[2].startswith("refused"))
    return {name for name, seen in verdict.items() if seen == {True}}


def names_in(text, public):
    """Entry points, whatever their prefix."""
    return set(CALL.findall(text)) | (set(re.findall(r"\b\w+\b", text)) & set(public))


def cell(names):
    shown = ", ".join(f"`{name}`" for name in names[:SHOWN])
    return shown + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def table(title, heading, rows):
    text = f"\n## {title}\n\n| {heading} | | tests |\n|---|---|---|\n"
    for name, note, tests in rows:
        text += f"| `{name}` | {note} | {cell(tests)} |\n"
    return text


def states(tests, functions_called):
    """Entry points together with the states that the same test names."""
    of = collections.defaultdict(lambda: collections.defaultdict(list))
    for test, text in tests.items():
        for state in set(STATE.findall(text)):
            for name in set(CALL.findall(text)):
                of[name][state].append(test)
    wanted = [name for name in sorted(of) if name in functions_called]
    text = "\n## States of a queue pair\n\nTests that call the function and name the state themselves; what the fixture brings to a state is not counted.\n\n| | " + " | ".join(STATES)
    text += " |\n|---|" + "---|" * len(STATES) + "\n"
    for name in wanted:
        text += f"| `{name}` | " + " | ".join(str(len(of[name][state])) for state in STATES) + " |\n"
    return text


def page(root):
    folder = root / "tests/system/verbs"
    tests, shared = read_tests(folder)
    no = refused((root / "doc/features.md").read_text(encoding="utf-8"))
    public = sorted({line.strip() for line in (folder / "public_symbols.txt").read_text(encoding="utf-8").splitlines()
                     if line.startswith("  ")})
    callers, commands = collections.defaultdict(list), collections.defaultdict(list)
    for test, text in sorted(tests.items()):
        for name in names_in(text, public):
            callers[name].append(test)
        for name in set(COMMAND.findall(text)):
            commands[name].append(test)
    by_fixture = names_in(shared, public)
    # A name before a parenthesis is a function's, not a type's.
    called = {name for text in [*tests.values(), shared] for name in re.findall(r"\b(ibv_\w+)\(", text)}
    inline = sorted(called - set(public))

    def row(name):
        note = "refused" if name in no else "fixture" if not callers[name] and name in by_fixture else ""
        return name, note, callers[name]

    without = [name for name in public if not callers[name] and name not in by_fixture]
    for name in set(COMMAND.findall(shared)) - commands.keys():
        commands[name] = []
    text = INTRODUCTION.format(public=len(public), inline=len(inline), commands=len(commands))
    text += table("libibverbs", "entry point", [row(name) for name in public])
    if without:
        line = "No test of these names them: " + ", ".join(f"`{name}`" for name in without)
        text += "\n" + textwrap.fill(line + ". `symbols_test.py` looks whether each is there.", 120) + "\n"
    text += table("Inline in `verbs.h`", "function", [row(name) for name in inline])
    text += table("Commands of librdmacm", "command", [(name, "" if found else "fixture", found)
                                                       for name, found in sorted(commands.items())])
    return text + states(tests, called)


def main():
    root = pathlib.Path(sys.argv[1])
    target, text = root / "doc/reference/verbs-table.md", page(root)
    if "--check" not in sys.argv:
        target.write_text(text, encoding="utf-8")
        return 0
    if target.is_file() and target.read_text(encoding="utf-8") == text:
        return 0
    print("doc/reference/verbs-table.md is out of date: python3 tests/system/verbs/verbs_table.py . writes it")
    return 1


if __name__ == "__main__":
    sys.exit(main())
