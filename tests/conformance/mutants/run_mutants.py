#!/usr/bin/env python3
"""Do the packet scripts notice small mistakes? Applies the edits of mutants.txt one by one, each to a copy of its file,
builds uroce-drill with it, and runs all scripts.

    run_mutants.py [--only EXPRESSION] [--first NAME] [--jobs N] [--keep DIR]

The tree itself is not touched. Only the changed object (for a header: those that include it) is compiled again,
without optimization. The share that was caught is printed; exit status 1 when it is below 95 %.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests" / "mutants"))
from hand_edits import HandEdit, edited, read_edits  # noqa: E402

FLOORS = ("base", "packet", "capture", "congestion", "transport", "cm", "engine", "engine_cm", "tools/pcap", "tools/mad", "tools/script")
INCLUDES = [ROOT / "roce", ROOT / "roce/include", ROOT / "roce/tools", ROOT / "apps"]
ENOUGH = 0.95
RUN_SECONDS = 30
CXX = os.environ.get("CXX", "c++").split()
# An edited header lies in a folder that is searched before the original's: ccache's direct mode does not notice it.
os.environ["CCACHE_NODIRECT"] = "1"
FLAGS = ["-std=c++20", "-DUROCE_VERSION=\"0\"", "-O0", "-w", "-fno-strict-aliasing"]


def mutated(mutant: HandEdit) -> str:
    return edited(mutant, (ROOT / "roce" / mutant.file).read_text(encoding="utf-8"))


def compile_to(source: pathlib.Path, target: pathlib.Path, includes: list):
    target.parent.mkdir(parents=True, exist_ok=True)
    command = CXX + FLAGS + [f"-I{folder}" for folder in includes] + ["-MMD", "-c", str(source), "-o", str(target)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class Build:
    """All objects of the unchanged tree; a mutant replaces some."""

    def __init__(self, scratch: pathlib.Path, jobs: int):
        self.scratch, self.jobs = scratch, jobs
        self.sources = {}
        for floor in FLOORS:
            for source in sorted((ROOT / "roce" / floor).glob("*.cc")):
                self.sources[f"{floor}/{source.name}"] = source
        self.sources["main.cc"] = ROOT / "apps" / "uroce_drill" / "main.cc"
        self.sources["command_line.cc"] = ROOT / "apps" / "common" / "command_line.cc"

    def object_of(self, folder: pathlib.Path, name: str) -> pathlib.Path:
        return folder / (name + ".o")

    def compile_plain(self) -> str:
        """Compiles the unchanged tree. Returns the compiler's errors if it fails."""
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            results = pool.map(
                lambda item: compile_to(item[1], self.object_of(self.scratch / "plain", item[0]), INCLUDES),
                self.sources.items(),
            )
            return "".join(result.stderr for result in results if result.returncode != 0)

    def users_of(self, header: str) -> list:
        """The sources that include a header, as the compiler recorded them in the plain build."""
        end = f"/roce/{header}"  # ccache may have made the path relative
        notes = {name: self.object_of(self.scratch / "plain", name).with_suffix(".d") for name in self.sources}
        users = [name for name, note in notes.items() if any(f"/{word}".endswith(end) for word in note.read_text(encoding="utf-8").split())]
        if not users:
            sys.exit(f"nothing includes {header}")
        return users

    def link(self, folder: pathlib.Path, replaced: dict) -> pathlib.Path:
        objects = [str(replaced.get(name, self.object_of(self.scratch / "plain", name))) for name in self.sources]
        program = folder / "uroce-drill"
        subprocess.run(CXX + objects + ["-o", str(program)], check=True)
        return program

    def make(self, mutant: HandEdit):
        """The program with the edit, or the compiler's errors."""
        folder = self.scratch / mutant.name
        copy = folder / "roce" / mutant.file
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(mutated(mutant), encoding="utf-8")
        includes = [folder / "roce", folder / "roce/include", *INCLUDES]
        if mutant.file.endswith(".h"):
            # Headers are found by their path from the include root, so the copy comes first.
            changed = {name: self.sources[name] for name in self.users_of(mutant.file)}
        else:
            changed = {mutant.file: copy}
        wrong = ""
        for name, source in changed.items():
            result = compile_to(source, self.object_of(folder, name), includes)
            wrong += result.stderr if result.returncode != 0 else ""
        replaced = {name: self.object_of(folder, name) for name in changed}
        return (None, wrong) if wrong else (self.link(folder, replaced), "")


def scripts() -> list:
    found = sorted((HERE.parent / "scripts").glob("*/*.rdrill"))
    return [str(path) for path in found if path.parent.name != "long"]


def run(program: pathlib.Path, files: list):
    """The failed scripts, or another reason why the program ended."""
    try:
        result = subprocess.run([str(program), "--quiet", *files], capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return ["(does not end)"]
    failed = [line.split("/scripts/")[-1] for line in result.stdout.splitlines() if line.startswith("FAILED ")]
    if result.returncode < 0:
        failed.append(f"(signal {-result.returncode})")
    if result.returncode == 2 and not failed:
        failed.append("(script refused)")
    return failed


def judge(build: Build, mutant: HandEdit, files: list, keep: bool):
    program, wrong = build.make(mutant)
    if program is None:
        return mutant, None, wrong
    failed = run(program, files)
    if not keep:
        shutil.rmtree(build.scratch / mutant.name)
    return mutant, failed, ""


def main() -> int:
    parser = argparse.ArgumentParser(description="asks whether the packet scripts notice small mistakes")
    parser.add_argument("--only", default="", help="only mutants whose name matches this expression")
    parser.add_argument("--first", default="", help="begin with this one")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=pathlib.Path, help="build here and leave it there")
    parser.add_argument("--every", type=int, default=1, help="only each N-th mutant")
    parser.add_argument("--applies", action="store_true", help="only looks whether each edit still fits the source")
    arguments = parser.parse_args()
    mutants = [mutant for mutant in read_edits(HERE / "mutants.txt") if re.search(arguments.only, mutant.name)]
    names = [mutant.name for mutant in mutants]
    if arguments.first:
        mutants = mutants[names.index(arguments.first) :]
    for mutant in mutants:
        mutated(mutant)
    mutants = mutants[:: arguments.every]
    if arguments.applies:
        print(f"{len(mutants)} mutants fit the source")
        return 0 if len(mutants) > 100 else 1
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as temporary:
        scratch = arguments.keep or pathlib.Path(temporary)
        build = Build(scratch, arguments.jobs)
        wrong = build.compile_plain()
        if wrong:
            sys.exit(wrong)
        files = scripts()
        sound = run(build.link(scratch / "plain", {}), files)
        if sound:
            sys.exit("the scripts fail without any edit: " + ", ".join(sound))
        print(f"{len(mutants)} mutants, {len(files)} scripts; built in {time.monotonic() - begun:.0f} s", flush=True)
        caught, broken = 0, 0
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            begun_all = [pool.submit(judge, build, mutant, files, arguments.keep is not None) for mutant in mutants]
            for done in concurrent.futures.as_completed(begun_all):
                mutant, failed, wrong = done.result()
                if failed is None:
                    broken += 1
                    print(f"DOES NOT COMPILE {mutant.name}\n{wrong}", flush=True)
                    continue
                caught += 1 if failed else 0
                seen = f"{len(failed)} scripts, {failed[0]}" if failed else mutant.what
                print(f"{'caught' if failed else 'MISSED'} {mutant.name:36} {seen}", flush=True)
    share = caught / len(mutants) if mutants else 1.0
    print(f"{caught} of {len(mutants)} mutants caught: {100 * share:.1f} % in {time.monotonic() - begun:.0f} s")
    return 0 if share >= ENOUGH and broken == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
