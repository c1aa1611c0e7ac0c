#!/usr/bin/env python3
"""needs.py refuses what an older system does not have, and nothing else.

    needs_test.py FOLDER-OF-NEEDS ORDINARY PORTABLE...
"""

import pathlib
import subprocess
import sys
import tempfile


def lines(folder, release, *files):
    done = subprocess.run([sys.executable, "-B", folder / "needs.py", release, *files], capture_output=True, text=True, check=False)
    assert done.returncode == (1 if done.stdout else 0) and not done.stderr, done
    return done.stdout.splitlines()


def compile_library(scratch, name, source, *more):
    (scratch / f"{name}.c").write_text(source)
    library = scratch / f"lib{name}.so"
    subprocess.run(["gcc", "-shared", "-fPIC", scratch / f"{name}.c", "-o", library, *more], check=True)
    return library


def main():
    folder, ordinary, portable = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    assert not lines(folder, "2.31", *portable)
    assert any("GLIBC_2." in line and f"{portable[0]} needs" in line for line in lines(folder, "2.3", portable[0]))
    said = "\n".join(lines(folder, "2.31", ordinary))
    assert "needs libstdc++.so.6" in said and "needs libmicrohttpd.so" in said and "needs GLIBC_2.34, for" in said, said
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        plain = compile_library(scratch, "plain", "int plain(void) { return 1; }")
        assert not lines(folder, "2.31", plain)
        verbs = compile_library(scratch, "verbs", "int ibv_fork_init(void); int plain(void) { return ibv_fork_init(); }", "-libverbs")
        assert lines(folder, "2.31", verbs) == [f"{verbs} needs libibverbs.so.1", f"{verbs} needs IBVERBS_1.1, for ibv_fork_init"]
        verbs.rename(scratch / "uroce-ping")
        assert not lines(folder, "2.31", scratch / "uroce-ping")
        with_path = compile_library(scratch, "with_path", "int plain(void); int twice(void) { return 2 * plain(); }", f"-L{scratch}", "-lplain",
                                    "-Wl,-rpath,/somewhere")
        assert lines(folder, "2.31", with_path) == [f"{with_path} needs libplain.so", f"{with_path} has a RUNPATH: /somewhere"]


if __name__ == "__main__":
    main()
