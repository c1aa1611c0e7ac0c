#!/usr/bin/env python3
"""What programs and libraries need of a system: refuses what an old one does not have.

    needs.py RELEASE FILE...    fails, with a line for each, where a file needs a library that is no part of the C library,
                                a version of its symbols after glibc RELEASE (2.31), or a folder to find libraries in

uroce-ping is a verbs program, and may need libibverbs and librdmacm, with what their first releases had.
"""

import pathlib
import re
import subprocess
import sys

LIBRARIES = re.compile(r"(libc|libm)\.so\.6|(libpthread\.so\.0|libdl\.so\.2|librt\.so\.1)|ld-linux[-\w]*\.so\.\d+")
VERBS_PROGRAMS = {"uroce-ping"}
VERBS_LIBRARIES = {"libibverbs.so.1", "librdmacm.so.1"}
VERBS_VERSIONS = {"IBVERBS_1.0", "IBVERBS_1.1", "RDMACM_1.0"}


def number(release):
    return tuple(int(part) for part in release.split("."))


def readelf(option, file):
    return subprocess.run(["readelf", "--wide", option, str(file)], check=True, capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}).stdout


def obstacles(file, release):
    """One line for each thing that an old system does not have."""
    asks = pathlib.Path(file).name in VERBS_PROGRAMS
    dynamic = readelf("-d", file)
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if not LIBRARIES.fullmatch(library) and not (asks and library in VERBS_LIBRARIES):
            yield f"{file} needs {library}"
    for kind, folders in re.findall(r"\((RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
        yield f"{file} has a {kind}: {folders}"
    needed = readelf("-V", file).partition("Version needs section")[2]
    for version in sorted(set(re.findall(r"Name: (\S+)", needed)) - (VERBS_VERSIONS if asks else set())):
        found = re.fullmatch(r"GLIBC_(\d+(?:\.\d+)+)", version)
        if found is None or number(found[1]) > number(release):
            symbols = re.findall(rf" (\w+)@{re.escape(version)}(?: |$)", readelf("--dyn-syms", file), re.M)
            yield f"{file} needs {version}, for {', '.join(symbols[:5]) or 'nothing that has a name'}"


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    found = [line for file in sys.argv[2:] for line in obstacles(file, sys.argv[1])]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
