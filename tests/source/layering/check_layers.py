#!/usr/bin/env python3
"""Refuses #include lines that point upwards.

The build runs this on every change (target `layering`); an arrow in the wrong direction fails the build.

    check_layers.py ROOT [--stamp FILE --depfile FILE]

Floors, an arrow points only downwards:

    include < base < packet < congestion < transport < engine < dpdk < {apps, verbs_shim}
    congestion < host < dpdk: the machine as the kernel tells of it, and what a user sets
    dpdk < api: what the library shows, in roce/include, which needs nothing of the house
    packet < fabric < {host, sim, apps}: the network that simulator, uroce-switch and --faults share
    packet < cm < {engine_cm, dpdk, verbs_shim}: connection management without I/O
    {engine, cm} < engine_cm < {dpdk, sim, script, replay}: beside an engine that no host drives
    packet < segment < host: shared memory in which the programs of a machine meet
    packet < capture < {dpdk, apps}: capture files, as they are written
    roce/tools, which only the programs that judge and show may include, apps/uroce_{drill,lint,replay,sim}: nothing of the
    rest of roce/, nor verbs_shim, nor a program that runs in production. It is included by its floors' names:
        {pcap, mad} < lint; {engine_cm, lint} < replay; {engine_cm, mad} < script; {engine_cm, fabric} < sim
    pmd/hw < pmd/vfio_user < pmd/card < pmd/ethdev
    base < pmd/vdev < {pmd/shmlan, pmd/udp}: what DPDK asks of a port that is software
    host < pmd/shmlan: a DPDK driver in front of the segment, as roce/dpdk/nic is
    {packet, host} < pmd/udp: a DPDK driver of the kernel's sockets, which has to know the headers and the iCRC

Of `pmd/`, only vdev, shmlan and udp know `roce/`, and nothing of `roce/` knows `pmd/`. Only roce/dpdk, pmd/ethdev, pmd/vdev,
pmd/shmlan, pmd/udp, apps and verbs_shim include DPDK's headers. Only verbs_shim and programs that are written as others write theirs include the
verbs headers: apps/examples, which include nothing of the house, and apps/uroce_ping, which has its command line from apps; apps/examples/library includes the library's headers, as its users do, and DPDK's. The floors that are pure
logic include nothing that reads a clock, opens a file or starts a thread.

Whoever uses a queue pair is compiled without its inside: only roce/transport and the judges of roce/tools reach
roce/transport/qp_context.h, over however many headers.
"""

import argparse
import pathlib
import re
import sys

BELOW = {
    "base": [],
    "packet": ["base"],
    "congestion": ["base", "packet"],
    "transport": ["base", "packet", "congestion"],
    "engine": ["base", "packet", "transport", "congestion"],
}
BELOW["fabric"] = ["base", "packet"]
BELOW["cm"] = ["base", "packet"]
BELOW["engine_cm"] = BELOW["engine"] + ["engine", "cm"]
BELOW["segment"] = ["base", "packet"]
BELOW["host"] = ["base", "packet", "congestion", "fabric", "segment"]
BELOW["dpdk"] = BELOW["engine_cm"] + ["engine_cm", "fabric", "host", "segment", "capture"]
BELOW["capture"] = ["base", "packet"]
BELOW["verbs_shim"] = BELOW["dpdk"] + ["dpdk"]
BELOW["api"] = BELOW["dpdk"] + ["dpdk"]
# The wing roce/tools.
BELOW["pcap"] = ["base", "packet", "capture"]
BELOW["mad"] = ["base"]
BELOW["lint"] = ["base", "packet", "pcap", "mad"]
BELOW["script"] = BELOW["engine_cm"] + ["engine_cm", "mad"]
BELOW["replay"] = BELOW["engine_cm"] + ["engine_cm", "pcap", "mad", "lint"]
BELOW["sim"] = BELOW["engine_cm"] + ["engine_cm", "fabric"]
TOOLS = ["pcap", "mad", "lint", "script", "replay", "sim"]
BELOW["apps"] = BELOW["dpdk"] + ["dpdk"]
JUDGES = [f"apps/uroce_{name}" for name in ("drill", "lint", "replay", "sim")]
for judge in JUDGES:
    BELOW[judge] = BELOW["apps"] + ["apps"] + TOOLS
for floor in BELOW:
    BELOW[floor] = ["include"] + BELOW[floor]
BELOW["include"] = []
BELOW["apps/examples"] = []
BELOW["apps/uroce_ping"] = ["apps"]
BELOW["apps/examples/library"] = ["include"]
BELOW["pmd/hw"] = []
BELOW["pmd/vfio_user"] = ["pmd/hw"]
BELOW["pmd/card"] = ["pmd/hw", "pmd/vfio_user"]
BELOW["pmd/ethdev"] = ["pmd/hw", "pmd/vfio_user", "pmd/card"]
BELOW["pmd/vdev"] = ["include", "base"]
BELOW["pmd/shmlan"] = ["include", "base", "packet", "segment", "host", "pmd/vdev"]
BELOW["pmd/udp"] = ["include", "base", "packet", "host", "pmd/vdev"]
BELOW["apps"] += ["pmd/hw", "pmd/vfio_user", "pmd/card"]

INSIDE = pathlib.PurePath("roce/transport/qp_context.h")
INSIDE_ALLOWED = {"transport", *TOOLS}

DPDK_ALLOWED = {"dpdk", "apps", *JUDGES, "apps/examples/library", "verbs_shim", "pmd/ethdev", "pmd/vdev", "pmd/shmlan", "pmd/udp"}
VERBS_ALLOWED = {"verbs_shim", "apps/examples", "apps/uroce_ping"}
PURE = {"include", "packet", "cm", "engine_cm", "transport", "congestion", "engine", "fabric", "capture", *TOOLS}
IMPURE_HEADERS = re.compile(
    r"^(sys/|linux/|net/|netinet/|arpa/|unistd\.h|fcntl\.h|poll\.h|pthread\.h|time\.h|ctime$|thread$|mutex$|shared_mutex$|"
    r"condition_variable$|future$|fstream$|iostream$|filesystem$)"
)
DPDK_HEADER = re.compile(r"^(rte_|cmdline|ethdev_|eal_|bus_.*driver\.h)")
VERBS_HEADER = re.compile(r"^(infiniband|rdma)/")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]')
SOURCES = {".h", ".hpp", ".inc", ".c", ".cc", ".cpp"}


def floor_of(path: pathlib.PurePath) -> str:
    """The floor of a path relative to the root, or "" for files that have no floor (tests)."""
    parts = path.parts
    if parts[:2] == ("roce", "tools"):
        return parts[2] if len(parts) > 3 else "roce/tools"
    if parts[0] == "roce":
        return parts[1] if len(parts) > 2 else "roce"
    if parts[:3] == ("apps", "examples", "library"):
        return "/".join(parts[:3])
    if parts[0] == "pmd" or parts[:2] in (("apps", "examples"), ("apps", "uroce_ping")) or "/".join(parts[:2]) in JUDGES:
        return "/".join(parts[:2])
    return parts[0] if parts[0] in BELOW else ""


def target_of(root: pathlib.Path, source: pathlib.Path, name: str):
    """The file that a quoted include names, relative to the root: as the compiler does, look next to the including file
    first, then in the include roots. None when there is no such file: the compiler reports that better."""
    for base in (source.parent, root / "roce", root / "roce" / "include", root / "roce" / "tools", root):
        candidate = (base / name).resolve()
        if candidate.is_file() and candidate.is_relative_to(root):
            return candidate.relative_to(root)
    return None


def check_include(root: pathlib.Path, source: pathlib.Path, floor: str, quoted: bool, name: str) -> str:
    """Why this include is refused, or ""."""
    if DPDK_HEADER.match(name) and floor not in DPDK_ALLOWED:
        return f"{floor} must not include DPDK's {name}"
    if VERBS_HEADER.match(name) and floor not in VERBS_ALLOWED:
        return f"{floor} must not include the verbs header {name}"
    if floor in PURE and IMPURE_HEADERS.match(name):
        return f"{floor} is pure logic: no I/O, clock or thread header ({name})"
    if not quoted:
        first = name.split("/")[0]
        if first in BELOW:
            return f'project headers are included with quotes: "{name}"'
        return ""
    if "tools" in name.split("/")[:-1]:
        return f'headers of roce/tools are included by the name of their floor: "{name.split("tools/")[-1]}"'
    path = target_of(root, source, name)
    target = None if path is None else floor_of(path)
    if target is None or target == floor or target in BELOW[floor]:
        return ""
    return f"{floor} must not include {target or 'tests'} ({name}): the arrow points upwards"


def check_file(root: pathlib.Path, source: pathlib.Path) -> list:
    relative = source.relative_to(root)
    floor = floor_of(relative)
    if floor not in BELOW:
        return [f"{relative}: `{floor}` is not a known floor: add it to tests/source/layering/check_layers.py"] if floor else []
    found = []
    for number, line in enumerate(source.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        why = check_include(root, source, floor, match[1] == '"', match[2])
        if why:
            found.append(f"{relative}:{number}: {why}")
    return found


def reach_inside(root: pathlib.Path, files: list) -> list:
    """The files that must not be compiled with INSIDE, and are; each with the header over which it gets there."""
    included = {}
    for source in files:
        names = [match[2] for match in map(INCLUDE.match, source.read_text(encoding="utf-8", errors="replace").splitlines())
                 if match and match[1] == '"']
        included[source.relative_to(root)] = {target_of(root, source, name) for name in names}
    over = {INSIDE: None}
    more = [INSIDE]
    while more:
        header = more.pop()
        reached = [path for path, targets in included.items() if header in targets and path not in over]
        over.update(dict.fromkeys(reached, header))
        more += reached
    return [f"{path}: is compiled with {INSIDE}, over {over[path]}: users of a queue pair must not be"
            for path in sorted(over) if over[path] and floor_of(path) not in INSIDE_ALLOWED]


def sources_of(root: pathlib.Path):
    files, folders = [], []
    for top in ("roce", "verbs_shim", "apps", "pmd"):
        base = root / top
        if not base.is_dir():
            continue
        folders.append(base)
        for path in sorted(base.rglob("*")):
            if path.is_dir():
                folders.append(path)
            elif path.suffix in SOURCES:
                files.append(path)
    return files, folders


def main() -> int:
    parser = argparse.ArgumentParser(description="refuses #include lines that point upwards")
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--stamp", type=pathlib.Path)
    parser.add_argument("--depfile", type=pathlib.Path)
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    files, folders = sources_of(root)
    if not files:
        print(f"layering: no sources below {root}", file=sys.stderr)
        return 2
    violations = [line for path in files for line in check_file(root, path)] + reach_inside(root, files)
    for line in violations:
        print(f"layering: {line}", file=sys.stderr)
    if violations:
        return 1
    if arguments.depfile:
        needed = " ".join(str(path).replace(" ", "\\ ") for path in files + folders)
        arguments.depfile.write_text(f"{arguments.stamp}: {needed}\n")
    if arguments.stamp:
        arguments.stamp.write_text(f"{len(files)} files\n")
    else:
        print(f"layering: {len(files)} files, every arrow points downwards")
    return 0


if __name__ == "__main__":
    sys.exit(main())
