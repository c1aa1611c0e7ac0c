#!/usr/bin/env python3
"""Packs what was linked for it into a folder that runs wherever it is unpacked.

    pack.py --root SOURCES --version VERSION --glibc RELEASE --output FILE --debug FILE --library FILE PROGRAM...

The same input gives the same bytes: names in order, owner 0, and one time for all, SOURCE_DATE_EPOCH (or that of the last
commit, or, without git, that of meson.build). Symbols for debuggers go into a second archive, FILE of --debug.
"""

import argparse
import io
import lzma
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import needs

# Archives that are linked in; each is looked for where the compiler finds it. Their licences are in Debian's packages.
INSIDE = ("librte_eal.a", "libz.a", "libelf.a", "libmicrohttpd.a", "libbsd.a", "libmd.a", "libstdc++.a", "libgcc_eh.a")
HEADERS = ("CLI/CLI.hpp", "nlohmann/json.hpp")
COMMON_LICENCES = pathlib.Path("/usr/share/common-licenses")


class Refusal(Exception):
    """One line for the user."""


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def moment(root):
    if os.environ.get("SOURCE_DATE_EPOCH"):
        return int(os.environ["SOURCE_DATE_EPOCH"])
    if (root / ".git").exists() and shutil.which("git"):
        asked = subprocess.run(["git", "-c", f"safe.directory={root}", "-C", root, "log", "-1", "--format=%ct"], capture_output=True, text=True, check=False)
        if asked.returncode == 0 and asked.stdout.strip():
            return int(asked.stdout)
    return int((root / "meson.build").stat().st_mtime)


def package_of(file):
    """The package and its version. A file may be known by its name under /lib or under /usr/lib."""
    path = str(file)
    for name in (path, path.removeprefix("/usr")):
        asked = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            package = asked.stdout.split(": ")[0]
            return package.split(":")[0], run("dpkg-query", "-W", "-f", "${source:Package} ${source:Version}", package)
    raise Refusal(f"no package has {file}, so its licence is not known")


def licences():
    """{name in the folder: text} of what is linked in, and of what it is made of."""
    if not shutil.which("dpkg-query"):
        raise Refusal("licences of what is linked in are taken from Debian's packages, and there is no dpkg-query here")
    files = [pathlib.Path(run("gcc", f"-print-file-name={name}").strip()).resolve() for name in INSIDE]
    files += [pathlib.Path("/usr/include") / name for name in HEADERS]
    texts, sources = {}, set()
    for file in files:
        package, source = package_of(file)
        text = pathlib.Path(f"/usr/share/doc/{package}/copyright").read_text(encoding="utf-8", errors="replace")
        texts[f"{source.split()[0]}.txt"] = text
        sources.add(source)
        for name in re.findall(r"/usr/share/common-licenses/([\w.-]*\w)", text):
            if (COMMON_LICENCES / name).is_file():
                texts[f"common/{name}.txt"] = (COMMON_LICENCES / name).read_text(encoding="utf-8", errors="replace")
    texts["sources.txt"] = ("What is linked in, as Debian's source packages with their versions (`apt-get source NAME=VERSION`):\n\n"
                            + "".join(f"{source}\n" for source in sorted(sources)))
    return texts


def strip(file, target, debug):
    """Copies `file` without its symbols, which go to `debug`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    debug.parent.mkdir(parents=True, exist_ok=True)
    run("objcopy", "--only-keep-debug", file, debug)
    run("objcopy", "--strip-unneeded", "--remove-section=.comment", file, target)
    run("objcopy", f"--add-gnu-debuglink={debug}", target)
    target.chmod(0o755)


def write_archive(folder, output, when):
    """`folder` becomes the one name at the top."""
    def plain(member):
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mtime = when
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        return member

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in [folder, *sorted(folder.rglob("*"))]:
            archive.add(path, path.relative_to(folder.parent).as_posix(), recursive=False, filter=plain)
    # A dictionary as long as it all: the programs have much in common.
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 3, "dict_size": 1 << 26}]
    output.write_bytes(lzma.compress(packed.getvalue(), lzma.FORMAT_XZ, lzma.CHECK_CRC64, filters=filters))


def fill(folder, debug, wanted):
    for file in wanted.programs:
        strip(file, folder / "bin" / file.name, debug / "bin" / f"{file.name}.debug")
    strip(wanted.library, folder / "lib" / wanted.library.name, debug / "lib" / f"{wanted.library.name}.debug")
    for name, source in (("README.md", "apps/portable/README.md"), ("LICENSE", "LICENSE"), ("CHANGELOG.md", "CHANGELOG.md")):
        shutil.copyfile(wanted.root / source, folder / name)
    for name, text in licences().items():
        (folder / "licences" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "licences" / name).write_text(text, encoding="utf-8")


def pack(wanted):
    found = [line for file in [*wanted.programs, wanted.library] for line in needs.obstacles(file, wanted.glibc)]
    if found:
        raise Refusal("\n".join(found))
    when = moment(wanted.root)
    with tempfile.TemporaryDirectory() as scratch:
        top = pathlib.Path(scratch) / f"uroce-{wanted.version}-linux-{platform.machine()}"
        debug = pathlib.Path(scratch) / f"{top.name}.debug"
        fill(top, debug, wanted)
        write_archive(top, wanted.output, when)
        write_archive(debug, wanted.debug, when)
        unpacked = sum(path.stat().st_size for path in top.rglob("*"))
    print(f"{wanted.output.name}: {wanted.output.stat().st_size / 1e6:.1f} MB, {unpacked / 1e6:.1f} MB unpacked")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("root", "output", "debug", "library"):
        options.add_argument(f"--{name}", required=True, type=pathlib.Path)
    options.add_argument("--version", required=True)
    options.add_argument("--glibc", required=True)
    options.add_argument("programs", nargs="+", type=pathlib.Path)
    try:
        pack(options.parse_args())
    except Refusal as refusal:
        sys.exit(f"tarball: {refusal}")


if __name__ == "__main__":
    main()
