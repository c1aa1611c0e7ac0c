#!/usr/bin/env python3
"""Finds what is easy to lose: a size that grew, a name that nobody uses, a page that nobody lists.

    check_tidy.py ROOT

    file       a C++ file has at most 500 lines
    function   a function has at most 60 lines, its head included
    methods    a class declares at most 25 functions beside constructors, destructor and assignment
    fields     a class has at most 16 fields; a struct without functions is a record and has what it records
    floor      every folder of roce/ and pmd/ is a floor in tests/source/layering/check_layers.py, and every floor is a folder
    friend     a class that is named as a friend exists
    dead       a function that a header declares is named somewhere beside its declaration and its definition
    adr        numbers of doc/adr have no gap without a word in doc/adr/README.md, which lists every page
    markdown   a line of Markdown has at most 120 columns, but for tables, code blocks and what has no blank
    link       what a page links to exists, and so does the heading; a path of the project in `code` is there, but in the
               changelog, which speaks of what was; a program of build/apps and a suite of tests are in a meson.build
    word       a word of tests/source/tidy/retired_words.txt is not used any more

tests/source/tidy/exceptions.txt lists what exceeds, each with its figure and a reason. A figure may not grow, and an entry
that nothing needs is an error.
"""

import argparse
import pathlib
import re
import runpy
import sys
from collections import Counter
from dataclasses import dataclass

import cpp_outline

MAX_FILE, MAX_FUNCTION, MAX_METHODS, MAX_FIELDS, MAX_COLUMNS = 500, 60, 25, 16, 120

PRODUCT = ("roce", "pmd", "verbs_shim", "apps")
CODE = (".h", ".cc", ".c")
WORDED = CODE + (".py", ".sh", ".md", ".build", ".rdrill", ".map")
EXCEPTIONS, RETIRED = "tests/source/tidy/exceptions.txt", "tests/source/tidy/retired_words.txt"
EXCEPTABLE = ("file", "function", "methods", "fields", "floor", "dead")
# Functions that the language calls without naming them.
CALLED_UNNAMED = ("begin", "end", "main")


@dataclass
class Finding:
    kind: str
    subject: str  # what an exception applies to: a file, `file:function`, `file:class`
    message: str
    figure: int = 0


class Tree:
    """The files of the project by their paths relative to the root, each read once."""

    def __init__(self, root):
        self.root = root
        self.texts = {}
        paths = [path for path in root.iterdir() if path.is_file()]
        for top in PRODUCT + ("tests", "doc", "scripts"):
            paths += (root / top).rglob("*")
        for path in sorted(paths):
            if path.suffix in WORDED and path.is_file():
                self.texts[path.relative_to(root).as_posix()] = path.read_text(encoding="utf-8", errors="replace")
        self.code = {name: text for name, text in self.texts.items() if name.endswith(CODE)}
        self.outlines = {name: cpp_outline.outline(text) for name, text in self.code.items()}

    def headers(self):
        """Outlines of the headers that are built, without tests."""
        return {name: outline for name, outline in self.outlines.items()
                if name.endswith(".h") and name.startswith(tuple(top + "/" for top in PRODUCT))}


def check_files(tree):
    for name, text in tree.code.items():
        lines = text.count("\n")
        if lines > MAX_FILE:
            yield Finding("file", name, f"{name}: {lines} lines; at most {MAX_FILE}", lines)


def check_functions(tree):
    for name, outline in tree.outlines.items():
        if not outline.balanced:
            yield Finding("function", name, f"{name}: its braces do not pair, so that it cannot be measured")
        for function in outline.functions:
            if function.lines > MAX_FUNCTION:
                yield Finding("function", f"{name}:{function.label}", f"{name}:{function.line}: {function.label} has "
                              f"{function.lines} lines; at most {MAX_FUNCTION}", function.lines)


def methods_of(found):
    """The functions of a class except those that construct, copy and destroy it."""
    return [function for function in found.functions
            if function.name.lstrip("~") != found.name and not function.name.startswith("operator=(")
            and function.name != "operator="]


def check_classes(tree):
    for name, outline in tree.headers().items():
        for found in outline.classes:
            methods, subject = len(methods_of(found)), f"{name}:{found.name}"
            for kind, figure, most in (("methods", methods, MAX_METHODS), ("fields", len(found.fields), MAX_FIELDS)):
                if methods and figure > most:
                    where = f"{name}:{found.line}: {found.name}"
                    yield Finding(kind, subject, f"{where} has {figure} {kind}; at most {most}", figure)


def check_floors(tree):
    rules = tree.root / "tests/source/layering/check_layers.py"
    known = set(runpy.run_path(str(rules))["BELOW"])
    folders = {path.name: path for wing in ("roce", "roce/tools") if (tree.root / wing).is_dir()
               for path in (tree.root / wing).iterdir() if path.is_dir() and path.name != "tools"}
    folders.update({f"pmd/{path.name}": path for path in (tree.root / "pmd").iterdir() if path.is_dir()})
    parts_of_apps = ("apps/examples", "apps/examples/library", "apps/uroce_drill", "apps/uroce_lint", "apps/uroce_ping", "apps/uroce_replay",
                     "apps/uroce_sim")
    folders.update({name: tree.root / name for name in ("apps", *parts_of_apps, "verbs_shim")
                    if name not in parts_of_apps or (tree.root / name).is_dir()})
    for floor in sorted(set(folders) - known):
        where = folders[floor].relative_to(tree.root)
        yield Finding("floor", floor, f"{where}/: `{floor}` is not a floor in tests/source/layering/check_layers.py")
    for floor in sorted(known - set(folders)):
        yield Finding("floor", floor, f"tests/source/layering/check_layers.py: there is no folder for the floor `{floor}`")


def check_friends(tree):
    defined = {found.name.split("::")[-1] for outline in tree.outlines.values() for found in outline.classes}
    for name, outline in tree.outlines.items():
        for friend, line in outline.friends:
            if friend.split("::")[-1] not in defined:
                yield Finding("friend", friend, f"{name}:{line}: the friend {friend} is defined nowhere")


def is_called_unnamed(function, owners):
    """Operators, constructors, and overriding functions that are called through the base class."""
    name = function.simple_name
    return ("operator" in name or name.startswith("~") or name in CALLED_UNNAMED or name in owners
            or re.search(r"\boverride\b", function.head) is not None)


def check_dead(tree):
    used = Counter()
    for name, text in tree.texts.items():
        if name.endswith(CODE):
            used.update(re.findall(r"\w+", cpp_outline.without_comments(text)))
        elif name.endswith(".map"):
            used.update(re.findall(r"\w+", text))
    for outline in tree.outlines.values():
        used.subtract(function.simple_name for function in outline.functions)
    for name, outline in tree.headers().items():
        owners = {found.name for found in outline.classes}
        for function in outline.functions:
            if used[function.simple_name] <= 0 and not is_called_unnamed(function, owners):
                yield Finding("dead", f"{name}:{function.simple_name}",
                              f"{name}:{function.line}: {function.simple_name} is declared and never used")


def check_adrs(tree):
    page = "doc/adr/README.md"
    listed = tree.texts.get(page, "")
    files = [name.split("/")[-1] for name in tree.texts if re.match(r"doc/adr/\d{4}-[^/]*\.md$", name)]
    numbers = Counter(int(name[:4]) for name in files)
    for name in files:
        if f"({name})" not in listed:
            yield Finding("adr", name, f"{page}: it does not list {name}")
    for number in range(1, max(numbers, default=0) + 1):
        if numbers[number] == 0 and not re.search(rf"\b{number:04}\b", listed):
            yield Finding("adr", f"{number:04}", f"{page}: there is no decision {number:04}, and no word about why")
        if numbers[number] > 1:
            yield Finding("adr", f"{number:04}", f"doc/adr: {numbers[number]} decisions have the number {number:04}")


def overlong_lines(text):
    """Numbers of the lines that are too long and could be broken; a table, code, or one long word could not."""
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip("> ").startswith(("```", "~~~")):
            in_code = not in_code
        words = re.sub(r"^[\s>]*(?:(?:[-*+]|\d+[.)])\s+)?", "", line)
        if len(line) > MAX_COLUMNS and not in_code and not words.startswith("|") and " " in words.rstrip():
            yield number, len(line)


def check_markdown(tree):
    for name, text in tree.texts.items():
        if name.endswith(".md"):
            for line, columns in overlong_lines(text):
                yield Finding("markdown", name, f"{name}:{line}: {columns} columns; at most {MAX_COLUMNS}")


def without_code(text):
    """The text of a page without code blocks and inline code, which contain neither links nor headings."""
    return re.sub(r"`[^`\n]*`", "``", re.sub(r"(?m)^([ >]*)(```|~~~).*?^[ >]*\2", "", text, flags=re.DOTALL))


def anchors_of(text):
    """What may follow `#` in a link to the page: the anchors that GitHub makes of its headings, and explicit ones."""
    outside = re.sub(r"(?m)^([ >]*)(```|~~~).*?^[ >]*\2", "", text, flags=re.DOTALL)
    headings = re.findall(r"(?m)^#+ +(.*?) *$", outside)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain} | set(re.findall(r'<a id="([^"]+)"', outside))


def check_links(tree):
    for name, text in tree.texts.items():
        if not name.endswith(".md"):
            continue
        for target in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            path = (tree.root / name).parent / file if file else tree.root / name
            if not path.exists():
                yield Finding("link", name, f"{name}: {target} is not there")
            elif anchor and path.suffix == ".md" and anchor not in anchors_of(path.read_text(encoding="utf-8")):
                yield Finding("link", name, f"{name}: {target}: there is no such heading")


def check_named_paths(tree):
    """Checks paths such as `roce/engine` and `roce/engine/engine.h`, and programs named by their source:
    `tests/bench/crc_bench`."""
    for name, text in tree.texts.items():
        if not name.endswith(".md") or name == "CHANGELOG.md":
            continue
        for path in re.findall(rf"`((?:{'|'.join(PRODUCT)}|tests|doc|scripts)/[\w./-]*)", text):
            whole = tree.root / path.rstrip("./")
            if not whole.exists() and not any(whole.parent.glob(whole.name + ".*")):
                yield Finding("link", name, f"{name}: `{path}` is not there")


def check_commands(tree):
    built = set(re.findall(r"'([\w-]+)'", "\n".join(text for name, text in tree.texts.items() if name.endswith("meson.build"))))
    for name, text in tree.texts.items():
        if name.endswith(".md") and name != "CHANGELOG.md":
            named = re.findall(r"\bbuild/apps/([\w-]+)(?![\w/-])|--suite ([\w-]+)", text)
            for word in sorted({program or suite for program, suite in named} - built):
                yield Finding("link", name, f"{name}: no meson.build has a program or a suite `{word}`")


def read_retired(tree):
    """Pairs of a retired word and its replacement, and the lines that are not such a pair."""
    path = tree.root / RETIRED
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    lines = [line for line in lines if line.strip() and not line.startswith("#")]
    pairs = [[words.strip() for words in line.split("->")] for line in lines]
    good = [len(pair) == 2 and all(pair) for pair in pairs]
    return ([pair for pair, is_good in zip(pairs, good) if is_good],
            [line for line, is_good in zip(lines, good) if not is_good])


def split_humps(text):
    """Splits CamelCase into Camel_Case; the lines stay."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})", "_", text)


def retired_pattern(old):
    """A pattern that finds `slow path` in prose, also across two lines of a comment, and in slow_paths and
    Slow_Path."""
    words = r"[\s_/*#-]+".join(map(re.escape, re.split(r"[\s_-]+", split_humps(old))))
    return re.compile(rf"(?<![A-Za-z0-9]){words}s?(?![A-Za-z0-9])", re.IGNORECASE)


def check_words(tree):
    pairs, wrong = read_retired(tree)
    for line in wrong:
        yield Finding("word", RETIRED, f"{RETIRED}: a line is `retired -> what to say instead`, not `{line}`")
    retired = [(retired_pattern(old), old, new) for old, new in pairs]
    for name, text in tree.texts.items():
        if not retired or name == "CHANGELOG.md" or name.startswith("tests/source/tidy/"):
            continue
        humps = split_humps(text)
        for pattern, old, new in retired:
            for found in pattern.finditer(humps):
                line = humps.count("\n", 0, found.start()) + 1
                yield Finding("word", name, f"{name}:{line}: `{old}` is now called `{new}`")


CHECKS = (check_files, check_functions, check_classes, check_floors, check_friends, check_dead, check_adrs,
          check_markdown, check_links, check_named_paths,
          check_commands, check_words)


def read_exceptions(root):
    """{(kind, subject): figure}, and what is wrong with the lines of the file."""
    entries, wrong = {}, []
    path = root / EXCEPTIONS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split(maxsplit=3)
        if len(words) < 4 or words[0] not in EXCEPTABLE or not re.fullmatch(r"\d+|-", words[2]):
            wrong.append(f"{EXCEPTIONS}:{number}: an entry is a kind, a subject, a figure or `-`, and a reason")
        elif tuple(words[:2]) in entries:
            wrong.append(f"{EXCEPTIONS}:{number}: {words[0]} {words[1]} is listed twice")
        else:
            entries[tuple(words[:2])] = 0 if words[2] == "-" else int(words[2])
    return entries, wrong


def judge(findings, entries):
    """Messages for findings without an exception, and for exceptions without a finding."""
    needed = set()
    for finding in findings:
        key = (finding.kind, finding.subject)
        if key not in entries:
            yield finding.message
            continue
        needed.add(key)
        if finding.figure > entries[key]:
            yield f"{finding.message}, and {entries[key]} by its exception, which may not grow"
        elif finding.figure < entries[key]:
            yield f"{EXCEPTIONS}: `{finding.kind} {finding.subject}` is {finding.figure} now, not {entries[key]}: say so"
    for kind, subject in entries:
        if (kind, subject) not in needed:
            yield f"{EXCEPTIONS}: `{kind} {subject}` is not needed any more: remove it"


def main(arguments=None):
    parser = argparse.ArgumentParser(description="finds what is easy to lose")
    parser.add_argument("root", type=pathlib.Path)
    tree = Tree(parser.parse_args(arguments).root.resolve())
    if not tree.code:
        print(f"tidy: no sources below {tree.root}", file=sys.stderr)
        return 2
    entries, problems = read_exceptions(tree.root)
    problems += judge([finding for check in CHECKS for finding in check(tree)], entries)
    for problem in problems:
        print(f"tidy: {problem}", file=sys.stderr)
    if not problems:
        print(f"tidy: {len(tree.texts)} files, {len(entries)} exceptions")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
