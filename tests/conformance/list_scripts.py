#!/usr/bin/env python3
"""The packet scripts below a folder, a line for each topic: its name, then its files relative to the folder."""

import pathlib
import sys

root = pathlib.Path(sys.argv[1])
for topic in sorted(path for path in root.iterdir() if path.is_dir()):
    scripts = [f"{topic.name}/{path.name}" for path in sorted(topic.glob("*.rdrill"))]
    if scripts:
        print(topic.name, *scripts)
