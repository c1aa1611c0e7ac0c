#!/usr/bin/env python3
"""Do the tests notice small mistakes? Draws edits that rules.py makes, puts each alone into a copy of the tree, builds
what can see it, and runs tests until one fails, the cheap ones first.

    run_mutants.py [FOLDER...] [--count N] [--seed S] [--minutes M] [--jobs N] [--handle H]
    run_mutants.py --list [FOLDER...]          what can be drawn, without running anything
    run_mutants.py --by-hand [FOLDER...] [--handle NAME]   those that a person wrote, by_hand/FOLDER.txt
    run_mutants.py --by-hand --fit             only looks whether each of these still fits the source

The seed and the text of the edit decide what is drawn, not the place in the file: a change of the code leaves the other
draws as they are. An edit that does not compile, or compiles to the same code, is no mutant; the next one is drawn
instead. What survives must be in survivors/FOLDER.txt, with the reason; exit status 1 when it is not, or when less than
95 % of a folder's mutants were caught (those that nobody can tell from the original do not count).
"""

import argparse
import concurrent.futures
import fnmatch
import hashlib
import json
import os
import pathlib
import queue
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

import rules
from confined import confine, why_not
from folders import ALONE, BY_HAND, FOLDERS, TOO_LARGE, Folder
from hand_edits import HandEdit, check_table, edited, read_edits

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENOUGH = 0.95
KINDS = ("equivalent", "tuning", "unseen")
GIGABYTE = 1 << 30
HANGS = "does not end"
PATIENCE_S = 120
SLOWER = 4  # than the slowest run that passed: a test that takes longer hangs, however busy the machine is
TOOK = {}  # test -> the longest time in seconds
COMMENT = re.compile(r"//.*")
FILTER = "--gtest_filter="
QUICK = {"uroce:unit", "uroce:conformance"}
# Freed memory is overwritten, as under `meson test`; here in small blocks too, as the sanitizers of `./check --full`
# see them.
SCRIBBLES = {"MALLOC_PERTURB_": "165", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
REMOVES = re.compile(r"\b(unlink(at)?|rmdir|rename(at2?)?|remove|remove_\w+|f?truncate(64)?)\(")
IN_MEMORY = {"uroce:sim", "uroce:conformance", "uroce:unit"}  # suites with the same result every time


class Mutant:
    def __init__(self, file: str, within: str, text: str, edit: rules.Edit):
        self.file, self.within, self.rule = file, within, edit.rule  # `within`: the file's path within the drawn folder
        self.start, self.end, self.new = edit.start, edit.end, rules.new_text(text, edit)
        first, last = text.rfind("\n", 0, edit.start) + 1, text.find("\n", edit.end)
        self.line = text.count("\n", 0, edit.start) + 1
        self.old_lines = [line.strip() for line in text[first:last].split("\n")]
        self.new_lines = [line.strip() for line in (text[first : edit.start] + self.new + text[edit.end : last]).split("\n")]
        self.handle = ""

    def name_after(self, seen: dict):
        """A short name for the edit, which stays the same when a comment is reworded or a folder renamed. The same edit
        of another equal line gets another name."""
        lines = [COMMENT.sub("", line).rstrip() for line in (*self.old_lines, "", *self.new_lines)]
        what = "\n".join([self.within, self.rule, *lines])
        seen[what] = seen.get(what, 0) + 1
        self.handle = hashlib.sha1(f"{what}\n{seen[what]}".encode()).hexdigest()[:8]

    def text(self) -> str:
        whole = (ROOT / self.file).read_text(encoding="utf-8")
        return whole[: self.start] + self.new + whole[self.end :]

    def shown(self) -> str:
        pairs = [(old, new) for old, new in zip(self.old_lines, self.new_lines) if old != new]
        return "\n".join([f"{self.file}:{self.line} ({self.rule})"] + ["-" + old for old, _ in pairs] + ["+" + new for _, new in pairs])


class HandMutant:
    """A mutant written by hand."""

    def __init__(self, edit: HandEdit):
        self.edit, self.file, self.handle = edit, edit.file, edit.name

    def text(self) -> str:
        return edited(self.edit, (ROOT / self.file).read_text(encoding="utf-8"))

    def shown(self) -> str:
        return self.edit.shown()


def by_hand(folder: Folder) -> list:
    """Each mutant fits the source, has a unique name, and, if it ran before, a verdict that the run knows."""
    path = HERE / "by_hand" / (folder.name + ".txt")
    mutants = [HandMutant(edit) for edit in (read_edits(path) if path.exists() else [])]
    if len({mutant.handle for mutant in mutants}) != len(mutants):
        sys.exit(f"{path}: two have the same name")
    for mutant in mutants:
        if mutant.edit.verdict and (mutant.edit.verdict not in ("caught", *KINDS) or not mutant.edit.reason.strip()):
            sys.exit(f"{path}: {mutant.handle}: a verdict (caught, {', '.join(KINDS)}) and by whom, or why")
        mutant.text()
    return mutants


def mutants_of(folder: Folder, suffixes: tuple = (".cc", ".h")) -> list:
    found, seen = [], {}
    for path in sorted((ROOT / folder.path).rglob("*")):
        if path.suffix not in suffixes or any(part in folder.leave_out for part in path.parts):
            continue
        file, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        for edit in sorted(rules.edits_of(text), key=lambda e: (e.start, e.end, e.rule)):
            mutant = Mutant(file, str(path.relative_to(ROOT / folder.path)), text, edit)
            mutant.name_after(seen)
            found.append(mutant)
    return found


def drawn(mutants: list, seed: str):
    """The mutants in the order of drawing: the rules take turns."""
    queues = {}
    for mutant in sorted(mutants, key=lambda m: hashlib.sha1(f"{seed} {m.handle}".encode()).hexdigest()):
        queues.setdefault(mutant.rule, []).append(mutant)
    turns = [(number, rule, mutant) for rule, found in queues.items() for number, mutant in enumerate(found)]
    return [mutant for _, _, mutant in sorted(turns, key=lambda turn: turn[:2])]


def read_survivors(folder: Folder) -> dict:
    """Handle -> (kind, reason)."""
    path = HERE / "survivors" / (folder.name + ".txt")
    known = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else [], 1):
        if not line.startswith("== "):
            continue
        head, _, reason = line[3:].partition(": ")
        handle, _, kind = head.partition(" ")
        if kind not in KINDS or not reason.strip() or reason.startswith("?"):
            sys.exit(f"{path}:{number}: a survivor needs a kind ({', '.join(KINDS)}) and a reason")
        known[handle] = (kind, reason)
    return known


def hashes_of(build: pathlib.Path, since: float = 0) -> dict:
    return {path: hashlib.sha1(path.read_bytes()).digest() for path in build.rglob("*.o") if path.stat().st_mtime >= since}


def in_bounds():
    """Limits what a mutant may use of the machine."""
    resource.setrlimit(resource.RLIMIT_DATA, (6 * GIGABYTE, 6 * GIGABYTE))
    resource.setrlimit(resource.RLIMIT_FSIZE, (GIGABYTE, GIGABYTE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def joined(tests: dict) -> dict:
    """Fewer processes: cases of one GoogleTest program, and the packet scripts, in one run each."""
    together = {}
    for name, test in tests.items():
        command = test["cmd"]
        if "--quiet" in command:
            common = command[: command.index("--quiet") + 1]
        else:
            common = [word for word in command if not word.startswith(FILTER)]
        rest = [word.removeprefix(FILTER) for word in command[len(common) :]]
        key = (tuple(common), tuple(test["suite"]), tuple(sorted(test["env"].items())), name if name in ALONE else "")
        if key not in together:
            together[key] = (name, {**test, "cmd": common}, [])
        together[key][2].extend(rest)
    found = {}
    for name, test, rest in together.values():
        by_filter = rest and "--quiet" not in test["cmd"]
        found[name] = {**test, "cmd": test["cmd"] + ([FILTER + ":".join(rest)] if by_filter else rest)}
    return found


class Tree:
    """A built copy of the tree, with one edit at a time."""

    def __init__(self, place: pathlib.Path):
        self.source, self.build, self.tools = place, place / "build", place / "build-tools"
        self.tests, self.targets, self.plain, self.known = {}, {}, {}, {}
        self.confined = True

    def copy(self, build: pathlib.Path):
        """Copies the tree and its build as they are, with their times: nothing is compiled again."""
        listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                capture_output=True, text=True, check=True).stdout
        shutil.rmtree(self.source, ignore_errors=True)
        for file in filter(None, listed.split("\0")):
            if (ROOT / file).is_file():
                (self.source / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, self.source / file)
        shutil.copytree(build, self.build, symlinks=True)
        if (ROOT / "build-deps").exists():
            (self.source / "build-deps").symlink_to(ROOT / "build-deps")
        for file in self.build.rglob("*-unity*.cpp"):  # unity files name their sources by absolute paths
            times = file.stat()
            file.write_text(file.read_text(encoding="utf-8").replace(f"{build}/", f"{self.build}/"), encoding="utf-8")
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        self.wrap_compiler()
        if why := why_not(self.source):
            self.confined = False
            print(f"this machine does not confine what a mutant writes ({why}): none is drawn in files that remove others")
        for what in ("tests", "targets"):
            said = subprocess.run(["meson", "introspect", f"--{what}", str(build)], capture_output=True, text=True, check=True).stdout
            moved = {str(build): self.build, str(ROOT): self.source}
            said = re.sub(f'"({re.escape(str(build))}|{re.escape(str(ROOT))})(?=[/"])', lambda at: f'"{moved[at[1]]}', said)
            self.known[what] = json.loads(said)

    def wrap_compiler(self):
        """Warnings are off: a mutant may cause one, but a test must catch it, not the compiler."""
        self.tools.mkdir(exist_ok=True)
        linker = " -fuse-ld=lld" if shutil.which("ld.lld") else ""
        for name, more in (("ccache", ""), ("c++", linker), ("g++", linker), ("clang++", linker)):
            if shutil.which(name):
                more = f"case \" $* \" in *' -c '*) ;; *) set -- \"$@\" {more} ;; esac" if more else ":"
                tool = self.tools / name
                tool.write_text(f"#!/bin/sh\nPATH='{os.environ['PATH']}'\n{more}\nexec {shutil.which(name)} \"$@\" -w\n")
                tool.chmod(0o755)

    def tests_of(self, folder: Folder) -> dict:
        """The tests that folders.py names. If one of them is missing, the run ends before the first mutant of any
        folder."""
        known = {test["name"]: test for test in self.known["tests"]}
        chosen = {}
        for pattern in folder.tests:
            names = [name for name in known if fnmatch.fnmatchcase(name, pattern) and name not in folder.not_these and "uroce:long" not in known[name]["suite"]]
            if not names:
                sys.exit(f"folders.py: {folder.name}: there is no test {pattern}, or a long one only")
            chosen.update({name: known[name] for name in names})
        return chosen

    def prepare(self, folder: Folder, quick: bool) -> str:
        """Builds the folder's tests. Returns what fails without any edit."""
        files = {target["id"]: target["filename"] for target in self.known["targets"]}
        chosen = self.tests_of(folder)
        self.tests = joined({name: test for name, test in chosen.items() if not quick or QUICK.intersection(test["suite"])})
        for name, test in self.tests.items():
            self.targets[name] = sorted({os.path.relpath(file, self.build) for target in test["depends"] for file in files[target]})
        if wrong := self.make([target for name in self.tests for target in self.targets[name]]):
            return wrong
        self.plain = hashes_of(self.build)
        return ""

    def sound(self, names: set) -> str:
        """Which of the tests that caught a mutant also fails without any edit; "" when none does. They may take three
        times as long as with an edit, so that a busy machine does not end the run. Their durations are recorded."""
        if wrong := self.make([target for name in self.tests for target in self.targets[name]]):
            return wrong
        return "".join(f"{name} fails without any edit: {why}\n" for name in names if (why := self.fails(name, 3)))

    def make(self, targets: list) -> str:
        environment = {**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}"}
        made = subprocess.run(["ninja", "-C", str(self.build), "-j", "2", *dict.fromkeys(targets)], capture_output=True, text=True,
                              env=environment, check=False)
        return "" if made.returncode == 0 else made.stdout[-3000:] + made.stderr

    def bounds(self):
        in_bounds()
        if self.confined:
            confine(self.source)

    def fails(self, name: str, patience: int = 1) -> str:
        """Why the test fails, or "" when it passes."""
        test = self.tests[name]
        command = list(test["cmd"])
        if test["protocol"] == "gtest" or any(word.startswith("--gtest") for word in command):
            command.append("--gtest_fail_fast")
        command = [word + ":-" + TOO_LARGE if word.startswith(FILTER) else word for word in command]
        run = subprocess.Popen(command, cwd=test["workdir"] or self.build, env={**os.environ, **SCRIBBLES, **test["env"]}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True, preexec_fn=self.bounds)
        try:
            begun = time.monotonic()
            said, _ = run.communicate(timeout=max(patience * min(test["timeout"], PATIENCE_S), SLOWER * TOOK.get(name, 0)))
        except subprocess.TimeoutExpired:
            return HANGS
        finally:
            try:
                os.killpg(run.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            run.wait()
        if run.returncode == 0:
            TOOK[name] = max(TOOK.get(name, 0), time.monotonic() - begun)
            return ""
        failed = [line for line in said.splitlines() if "[  FAILED  ]" in line or line.startswith("FAILED")]
        return f"exit status {run.returncode}" + (f", {failed[0].replace('[  FAILED  ]', '').strip()[:100]}" if failed else "")

    def judge(self, mutant: Mutant) -> tuple:
        """("invalid" | "same" | "caught" | "survived", by whom)."""
        path = self.source / mutant.file
        original = path.read_text(encoding="utf-8")
        path.write_text(mutant.text(), encoding="utf-8")
        begun, changed, made = time.time() - 0.05, False, set()
        try:
            for name, test in self.tests.items():
                if not made.issuperset(self.targets[name]) and (wrong := self.make(self.targets[name])):
                    return "invalid", wrong
                made.update(self.targets[name])
                if not changed:
                    changed = any(self.plain.get(file) != digest for file, digest in hashes_of(self.build, begun).items())
                if not changed:
                    continue  # this test does not use the file
                noticed = self.fails(name)
                # A test that reads a clock may fail for another reason, such as a busy machine, but hardly twice.
                surely = noticed == HANGS or IN_MEMORY.intersection(test["suite"])
                if noticed and (surely or self.fails(name)):
                    return "caught", f"{name}: {noticed}"
            return ("survived", "") if changed else ("same", "")
        finally:
            path.write_text(original, encoding="utf-8")


class Run:
    """One folder: each mutant goes to whichever tree is free."""

    def __init__(self, folder: Folder, mutants: list, trees: list, count: int, until: float):
        self.folder, self.mutants, self.count, self.until, self.list = folder, mutants, count, until, "survivors"
        self.free = queue.SimpleQueue()
        for tree in trees:
            self.free.put(tree)
        self.survivors = read_survivors(folder)
        self.lock = threading.Lock()
        self.noticed = set()  # names of tests
        self.results = {"invalid": [], "same": [], "caught": [], "survived": []}

    def judge(self, mutant: Mutant):
        with self.lock:
            have = len(self.results["caught"]) + len(self.results["survived"])
        if have >= self.count or time.monotonic() > self.until:
            return
        tree, begun = self.free.get(), time.monotonic()
        try:
            verdict, by = tree.judge(mutant)
        finally:
            self.free.put(tree)
        with self.lock:
            self.results[verdict].append(mutant)
            if verdict == "caught":
                self.noticed.add(by.partition(": ")[0])
            if verdict in ("caught", "survived"):
                print(f"{verdict} {mutant.handle} {time.monotonic() - begun:4.0f} s {by}\n    " + mutant.shown().replace("\n", "\n    "), flush=True)

    def all(self, jobs: int):
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for done in [pool.submit(self.judge, mutant) for mutant in self.mutants]:
                done.result()

    def report(self) -> bool:
        caught, survived = self.results["caught"], self.results["survived"]
        new = [m for m in survived if m.handle not in self.survivors]
        alike = [m for m in survived if self.survivors.get(m.handle, ("",))[0] == "equivalent"]
        judged = len(caught) + len(survived) - len(alike)
        share = len(caught) / judged if judged else 1.0
        for mutant in new:
            print(f"not in {self.list}/{self.folder.name}.txt:\n== {mutant.handle} unseen: ?\n{mutant.shown()}")
        for mutant in caught:
            if mutant.handle in self.survivors:
                print(f"caught now, take it from the list: {mutant.handle}")
        print(f"{self.folder.name}: {len(caught)} of {judged} caught, {100 * share:.1f} %; {len(survived) - len(alike)} survivors "
              f"({len(new)} not listed), {len(alike)} equivalent; {len(self.results['invalid'])} did not compile, "
              f"{len(self.results['same'])} came to the same code; drawn from {len(self.mutants)}", flush=True)
        return not new and (share >= ENOUGH or judged < 20)


def main() -> int:
    parser = argparse.ArgumentParser(description="asks whether the tests notice small mistakes")
    parser.add_argument("folders", nargs="*", help=f"of {', '.join(FOLDERS)}; all of them when none is given")
    parser.add_argument("--count", type=int, default=45, help="mutants a folder")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no other mutant after that time")
    parser.add_argument("--quick", action="store_true", help="only edits of .cc files, and only unit tests and packet scripts")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="where everything is built, as ./check does")
    parser.add_argument("--scratch", type=pathlib.Path, help="for the copies (default: build-mutants beside the build)")
    parser.add_argument("--list", action="store_true", help="only show the first COUNT of each folder's draw")
    parser.add_argument("--by-hand", action="store_true", help="the ones that a person wrote, in place of drawn ones")
    parser.add_argument("--fit", action="store_true", help="only look whether those by hand fit the source")
    parser.add_argument("--handle", action="append", default=[], help="only these, as a run named them")
    parser.add_argument("--skip", action="append", default=[], help="not these")
    arguments = parser.parse_args()
    known = BY_HAND if arguments.by_hand else FOLDERS
    if unknown := [name for name in arguments.folders if name not in known]:
        parser.error(f"no such folder: {', '.join(unknown)}")
    chosen = [known[name] for name in arguments.folders or known]
    if arguments.fit:
        lists = {folder.path: [mutant.edit for mutant in by_hand(folder)] for folder in BY_HAND.values()}
        check_table((HERE / "README.md").read_text(encoding="utf-8"), lists)
        count = sum(map(len, lists.values()))
        print(f"{count} mutants by hand fit the source")
        return 0 if count > 100 else 1
    suffixes = (".cc",) if arguments.quick else (".cc", ".h")
    if arguments.list:
        for folder in chosen:
            mutants = drawn(mutants_of(folder, suffixes), arguments.seed)
            print(f"{folder.name}: {len(mutants)} edits")
            for mutant in mutants[: arguments.count]:
                print(f"{mutant.handle} {mutant.shown()}")
        return 0
    begun, good, build = time.monotonic(), True, arguments.build.resolve()
    if subprocess.run(["ninja", "-C", str(build)], stdout=subprocess.DEVNULL, check=False).returncode != 0:
        sys.exit(f"{build} does not build: meson setup build -Dtests=true -Dprograms=true -Dpmd=enabled")
    scratch = arguments.scratch or build.parent / "build-mutants"
    trees = [Tree(scratch.resolve() / f"tree-{number}") for number in range(arguments.jobs)]
    for tree in trees:
        tree.copy(build)
    for folder in chosen:
        trees[0].tests_of(folder)
    for number, folder in enumerate(chosen):
        for tree in trees:
            if wrong := tree.prepare(folder, arguments.quick):
                sys.exit(wrong)
        if wrong := trees[0].sound(set(trees[0].tests)):
            sys.exit(wrong)
        # Each folder gets its share of the remaining time.
        now, end = time.monotonic(), begun + 60 * arguments.minutes
        mutants = by_hand(folder) if arguments.by_hand else drawn(mutants_of(folder, suffixes), arguments.seed)
        run = Run(folder, mutants, trees, len(mutants) if arguments.by_hand else arguments.count, now + (end - now) / (len(chosen) - number))
        if arguments.by_hand:
            run.list = "by_hand"
            run.survivors = {mutant.handle: (mutant.edit.verdict, mutant.edit.reason) for mutant in mutants if mutant.edit.verdict in KINDS}
        run.mutants = [mutant for mutant in run.mutants if mutant.handle not in arguments.skip]
        if not trees[0].confined:
            run.mutants = [mutant for mutant in run.mutants if not REMOVES.search((ROOT / mutant.file).read_text(encoding="utf-8"))]
        if arguments.handle:
            run.mutants = [mutant for mutant in run.mutants if mutant.handle in arguments.handle]
        print(f"{folder.name}: {len(trees[0].tests)} tests, ready after {time.monotonic() - begun:.0f} s", flush=True)
        run.all(arguments.jobs)
        if wrong := trees[0].sound(run.noticed):
            sys.exit(wrong)
        good = run.report() and good
    print(f"{time.monotonic() - begun:.0f} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
