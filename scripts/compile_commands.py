#!/usr/bin/env python3
"""compile_commands.py BUILDDIR FOLDER: writes FOLDER/compile_commands.json, with a command for each source of its own.

Meson compiles the sources of some targets several at a time and tells the compile database of the file that includes
them. clang-tidy, and editors with clangd, want to know about the sources themselves.
"""

import json
import pathlib
import re
import shlex
import sys

INCLUDED = re.compile(r'^#include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def commands(build):
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        directory = pathlib.Path(entry["directory"])
        generated = directory / entry["file"]
        if "-unity" not in generated.name:
            yield entry
            continue
        words = shlex.split(entry["command"])
        for source in INCLUDED.findall(generated.read_text(encoding="utf-8")):
            yield {**entry, "file": source, "command": shlex.join(source if word == entry["file"] else word for word in words)}


def main():
    build, folder = (pathlib.Path(path) for path in sys.argv[1:])
    found = list(commands(build))
    if not any(entry["file"].endswith(".cc") for entry in found):
        sys.exit(f"no sources in {build}/compile_commands.json")
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
