#!/usr/bin/env python3
"""Stand-ins for the C library, to link with: what this machine's has, as far as glibc 2.31 had it, too.

    old_libc.py STAMP FOLDER RELEASE COMPILER...

A program that is linked with a C library asks for the newest version of each symbol that this library has, and then does
not start with an older one. The stand-ins have of each symbol the newest version that is not newer than RELEASE (2.31),
and no symbol that came later. They are never loaded: their names are those of the real libraries.

In glibc 2.34 libpthread, libdl and librt went into libc, which keeps their old versions of symbols, for old programs; so
the stand-in for libc has them, and those for these three have none. A program names the three all the same, for an older
system, where they define what the program asks for. (The loader looks for a version in every library that the program
names.)
"""

import collections
import pathlib
import re
import subprocess
import sys

Symbol = collections.namedtuple("Symbol", "name kind weak address size version")
# libpthread and the others have nothing left in them that a program links with.
EMPTY = {"pthread": "libpthread.so.0", "dl": "libdl.so.2", "rt": "librt.so.1"}


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def release(version):
    """(2, 2, 5) of "GLIBC_2.2.5"; None of what has no number, such as GLIBC_PRIVATE."""
    found = re.fullmatch(r"GLIBC_(\d+(?:\.\d+)+)", version)
    return tuple(int(part) for part in found[1].split(".")) if found else None


def newest_symbols(library, last):
    """Of each symbol of the file the newest version that is not newer than `last`."""
    symbols = {}
    for line in run("readelf", "--dyn-syms", "--wide", library).splitlines():
        words = line.split()
        if len(words) < 8 or "@" not in words[7] or words[6] == "UND" or words[3] not in ("FUNC", "IFUNC", "OBJECT"):
            continue
        name, _, version = words[7].replace("@@", "@").partition("@")
        number = release(version)
        if number is None or number > last or name.startswith("GLIBC_"):
            continue
        if name not in symbols or number > release(symbols[name].version):
            symbols[name] = Symbol(name, words[3], words[4] == "WEAK", int(words[1], 16), int(words[2], 0), version)
    return sorted(symbols.values())


def assembly(symbols):
    """Names of one object stay names of one object: the linker copies it into a program once, for all of them."""
    yield ".text"
    for symbol in symbols:
        yield f".{'weak' if symbol.weak else 'globl'} {symbol.name}"
        if symbol.kind != "OBJECT":
            yield f".type {symbol.name}, %function\n{symbol.name}:"
    objects = collections.defaultdict(list)
    for symbol in symbols:
        if symbol.kind == "OBJECT":
            objects[symbol.address].append(symbol)
    yield ".byte 0\n.data"
    for _, names in sorted(objects.items()):
        yield ".balign 32"
        for symbol in names:
            yield f".type {symbol.name}, %object\n.size {symbol.name}, {symbol.size}\n{symbol.name}:"
        yield f".zero {max(1, max(symbol.size for symbol in names))}"
    yield '.section .note.GNU-stack,"",%progbits'


def version_script(symbols):
    by_version = collections.defaultdict(list)
    for symbol in symbols:
        by_version[symbol.version].append(symbol.name)
    for version in sorted(by_version, key=release):
        yield f"{version} {{ global: {' '.join(name + ';' for name in by_version[version])} }};"


def make(compiler, folder, file, soname, symbols):
    source, script = folder / f"{soname}.s", folder / f"{soname}.map"
    source.write_text("\n".join(assembly(symbols)) + "\n")
    script.write_text("\n".join(version_script(symbols)) + "\n")
    versions = [f"-Wl,--version-script={script}"] if symbols else []
    run(*compiler, "-shared", "-nostdlib", f"-Wl,-soname,{soname}", *versions, source, "-o", folder / file)



def main():
    stamp, folder, last, compiler = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), release("GLIBC_" + sys.argv[3]), sys.argv[4:]

    def real(name):
        return run(*compiler, "-print-file-name=" + name).strip()

    libc = real("libc.so.6")
    loader = pathlib.Path(re.search(r"\[(ld-linux[^\]]*)\]", run("readelf", "-d", libc))[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, soname in (("libc_stand_in.so", "libc.so.6"), ("loader_stand_in.so", str(loader)), ("libm.so", "libm.so.6")):
        make(compiler, folder, name, soname, newest_symbols(real(soname), last))
    for name, soname in EMPTY.items():
        make(compiler, folder, f"lib{name}.so", soname, [])
    # What a program has of the C library inside itself comes from the machine's.
    (folder / "libc.so").write_text(f"GROUP ( {folder / 'libc_stand_in.so'} {real('libc_nonshared.a')} AS_NEEDED ( {folder / 'loader_stand_in.so'} ) )\n")
    stamp.write_text("")


if __name__ == "__main__":
    main()
