#!/usr/bin/env python3
"""Does a source open, judge or change by its name what somebody else may put a link in the place of?

    check_paths.py ROOT

In the folders that use directories in which others may write, or that belong to whoever got there first:

    open, openat           with O_NOFOLLOW, unless the name is below /proc, /dev or /sys, or "."
    stat                   lstat, fstat, or fstatat with AT_SYMLINK_NOFOLLOW
    streams, fopen         only below /proc and /sys: they follow links

And in all of the product:

    chmod, chown and their like, by name: by descriptor (fchmod, fchown)
    kill(pid, 0)           a process number of another container means nothing: who lives holds a lock

ALLOWED names the places that may, each with its reason. One that fits nothing any more is an error, too.
"""

import pathlib
import re
import sys

PRODUCT = ("roce", "verbs_shim", "apps", "pmd")
SHARED = ("roce/host", "roce/segment", "pmd/shmlan", "pmd/udp", "pmd/card/wires", "verbs_shim/sysfs_tree.cc", "verbs_shim/xrc_domain.cc",
          "verbs_shim/runtime.cc")
SYSTEM = re.compile(r'\(\s*(?:\w+,\s*)?"(?:/proc|/dev|/sys)/|\(\s*\w+,\s*"\."')
CALL = re.compile(r"(?<![\w.>:])(?:std::|::)?(?:[io]fstream\s+)?(\w+)\s*\(")

ALLOWED = {
    ("roce/segment/directory.cc", 'chmod(("/proc/self/fd/"'): "the link of a descriptor, which was looked at",
    ("roce/segment/mailbox.cc", "stat(where_.c_str()"): "a link of /proc, which is to be followed",
    ("roce/host/pci_hold.cc", "open((folder"): "a file of sysfs",
    ("roce/host/wire_end.cc", 'stat(("/proc/"'): "a directory of /proc",
    ("pmd/card/wires/pcap_wire.cc", "fopen(path"): "a file that the user names",
    ("roce/host/hugepages.cc", "ifstream(all / name"): "a file of sysfs",
    ("roce/host/port_plan.cc", "ifstream(device"): "a file of sysfs",
}


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", lambda found: re.sub(r"[^\n]", " ", found.group()), text, flags=re.DOTALL)


def calls(text):
    """(line number, name, the call with its arguments) of every call."""
    for found in CALL.finditer(text):
        depth, at = 0, found.end() - 1
        while at < len(text):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
            if depth == 0:
                break
        yield text.count("\n", 0, found.start()) + 1, found.group(1), " ".join(text[found.start():at].split())


def complaint(name, call, shared):
    if name in ("chmod", "chown", "lchown", "fchmodat", "fchownat"):
        return f"{name} goes by a name: fchmod or fchown of a descriptor"
    if name == "kill" and re.search(r",\s*0\s*\)$", call):
        return "whether a process lives is known by a lock that it holds"
    if not shared:
        return None
    if name in ("open", "openat") and re.search(r"\bO_(RDONLY|WRONLY|RDWR|PATH)\b|flags", call):
        return None if "O_NOFOLLOW" in call or SYSTEM.search(call) else f"{name} follows links: O_NOFOLLOW"
    if name == "stat" and "," in call:
        return "stat follows links: lstat, or fstat"
    if name == "fstatat" and "AT_SYMLINK_NOFOLLOW" not in call:
        return "fstatat follows links: AT_SYMLINK_NOFOLLOW"
    if name in ("fopen", "ifstream", "ofstream") or re.search(r"[io]fstream ", call.partition("(")[0]):
        return None if SYSTEM.search(call) else "it follows links: open with O_NOFOLLOW"
    return None


def check(root):
    problems, used = [], set()
    for folder in PRODUCT:
        for path in sorted((root / folder).rglob("*.cc")) + sorted((root / folder).rglob("*.h")):
            where = path.relative_to(root).as_posix()
            shared = where.startswith(SHARED)
            for line, name, call in calls(without_comments(path.read_text(encoding="utf-8"))):
                what = complaint(name, call, shared)
                if what is None:
                    continue
                reason = next((key for key in ALLOWED if key[0] == where and key[1] in call), None)
                if reason is None:
                    problems.append(f"{where}:{line}: {what}: {call[:80]}")
                else:
                    used.add(reason)
    return problems, [key for key in ALLOWED if key not in used]


def main():
    problems, unused = check(pathlib.Path(sys.argv[1]))
    for problem in problems:
        print(problem)
    for where, text in unused:
        print(f"{where}: nothing is like '{text}' any more: take it out of ALLOWED")
    return 1 if problems or unused else 0


if __name__ == "__main__":
    sys.exit(main())
