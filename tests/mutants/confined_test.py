#!/usr/bin/env python3
"""What a confined process writes and removes is gone with it, in its tree as elsewhere. Exit status 77 where the kernel
does not confine."""

import os
import pathlib
import subprocess
import sys
import tempfile

from confined import confine, why_not

CHILD = """
import os, pathlib, sys
tree, outside = map(pathlib.Path, sys.argv[1:])
assert os.getcwd() == str(tree), os.getcwd()
(tree / "file").unlink()
(tree / "new").write_text("written")
assert sorted(os.listdir(tree)) == ["new"], os.listdir(tree)
pathlib.Path("/tmp/of-a-mutant").write_text("written")
pathlib.Path("/proc/self/comm").write_text("confined")
assert not outside.exists(), "another's files below /tmp are not seen"
for forbidden in ("/of-a-mutant", "/dev/of-a-mutant", "/usr/of-a-mutant"):
    try:
        pathlib.Path(forbidden).touch()
    except OSError:
        continue
    sys.exit(f"{forbidden} could be made")
pathlib.Path("/dev/null").write_text("devices work")
print("all done")
"""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="uroce-confined-", dir="/tmp") as place:
        tree, outside = pathlib.Path(place) / "tree", pathlib.Path(place) / "outside"
        for made in (tree, outside):
            made.mkdir()
            (made / "file").write_text("kept", encoding="ascii")
        if why := why_not(tree):
            print(f"this machine does not confine: {why}")
            return 77
        run = subprocess.run([sys.executable, "-B", "-c", CHILD, str(tree), str(outside)], cwd=tree, capture_output=True, text=True, check=False,
                             preexec_fn=lambda: confine(tree))
        assert run.returncode == 0 and run.stdout == "all done\n", run.stdout + run.stderr
        for kept in (tree, outside):
            assert os.listdir(kept) == ["file"], os.listdir(kept)
            assert (kept / "file").read_text(encoding="ascii") == "kept"
        assert not os.path.exists("/tmp/of-a-mutant")
    return 0


if __name__ == "__main__":
    sys.exit(main())
