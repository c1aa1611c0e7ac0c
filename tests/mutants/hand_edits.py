"""Edits that a person wrote down, as text:

    == name: what is wrong then
    file, relative to the folder that the list is about
    -exact line(s) as they stand there, leading spaces apart; the first place where they match
    +replacement
    = verdict: by whom, or why
"""

import pathlib
import sys


class HandEdit:
    def __init__(self, title: str):
        self.name, _, self.what = title.partition(": ")
        self.file = ""
        self.old, self.new = [], []
        self.verdict, self.reason = "", ""

    def shown(self) -> str:
        return "\n".join([f"{self.file}: {self.what}"] + ["-" + line for line in self.old] + ["+" + line for line in self.new])


def read_edits(path: pathlib.Path) -> list:
    edits = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("== "):
            edits.append(HandEdit(line[3:]))
        elif line.startswith("#") and not edits or not line.strip():
            continue
        elif edits and line.startswith("-"):
            edits[-1].old.append(line[1:])
        elif edits and line.startswith("+"):
            edits[-1].new.append(line[1:])
        elif edits and line.startswith("= "):
            edits[-1].verdict, _, edits[-1].reason = line[2:].partition(": ")
        elif edits and not edits[-1].file:
            edits[-1].file = line.strip()
        else:
            sys.exit(f"{path}:{number}: not understood: {line}")
    return edits


def edited(edit: HandEdit, text: str) -> str:
    """The file's text with the edit applied. The lines must exist; leading spaces are ignored."""
    lines = text.splitlines()
    wanted = [line.strip() for line in edit.old]
    # The last line may be the beginning of a comment, cut short.
    for at in range(len(lines) - len(wanted) + 1):
        there = [line.strip() for line in lines[at : at + len(wanted)]]
        if there[:-1] == wanted[:-1] and (there[-1] == wanted[-1] or (len(wanted) > 1 and there[-1].startswith(wanted[-1]))):
            return "\n".join(lines[:at] + edit.new + lines[at + len(wanted) :]) + "\n"
    sys.exit(f"{edit.name}: {edit.file} has no such lines:\n  " + "\n  ".join(edit.old))


def check_table(page: str, lists: dict):
    """The page's table of the lists, each named by its folder, counts what is in them."""
    table = page[page.index("| folder | written |") :].split("\n\n")[0]
    rows = {cells[0].strip("`"): cells[1:] for cells in ([cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:])}
    lists = dict(lists, all=[edit for edits in lists.values() for edit in edits])
    if rows.keys() != lists.keys():
        sys.exit(f"the table has other folders: {sorted(rows.keys() ^ lists.keys())}")
    for name, edits in lists.items():
        verdicts = [edit.verdict for edit in edits]
        same = verdicts.count("equivalent")
        wanted = (str(len(edits)), str(same), f"{verdicts.count('caught')} of {len(edits) - same}")
        written, _, _, equivalent, caught = rows[name]
        if (written, equivalent, caught) != wanted:
            sys.exit(f"the table says of {name} {written}, {equivalent}, {caught}; it is {', '.join(wanted)}")
