#!/usr/bin/env python3
"""Installs the library into a folder of its own, and builds and runs two programs against nothing but that.

    check_install.py BUILDDIR SOURCES
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

STANDARD = ["-std=c++20"]


def run(*words, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=200, check=False, **more)
    assert done.returncode == 0, f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


class Prefix:
    """The folder that `meson install` filled."""

    def __init__(self, build, folder):
        run("meson", "install", "-C", build, "--no-rebuild", "--destdir", folder)
        (self.pc,) = folder.rglob("uroce.pc")
        self.lib = self.pc.parent.parent
        self.prefix = folder / re.search(r"^prefix=/(.*)$", self.pc.read_text(), re.M)[1]
        self.include = self.prefix / "include"

    def flags(self, what):
        """The prefix is not where it was configured, so the path is given anew."""
        environment = {**os.environ, "PKG_CONFIG_PATH": str(self.pc.parent)}
        return run("pkg-config", f"--define-variable=prefix={self.prefix}", what, "uroce", env=environment).split()


def dpdk(what):
    return run("pkg-config", what, "libdpdk").split()


def check_headers(prefix, scratch):
    """Each header is complete in itself, and includes nothing from outside the installed folder."""
    names = sorted(path.name for path in (prefix.include / "uroce").glob("*.h"))
    assert "device.h" in names and "endpoint.h" in names, names
    for name in names:
        source = scratch / "header.cc"
        source.write_text(f"#include <uroce/{name}>\n#include <uroce/{name}>\n")
        for compiler in filter(shutil.which, ("g++", "clang++")):
            run(compiler, *STANDARD, *prefix.flags("--cflags"), "-Wall", "-Wextra", "-Wconversion", "-Wold-style-cast", "-Werror",
                "-fsyntax-only", source)
        for included in re.findall(r'#include "([^"]+)"', (prefix.include / "uroce" / name).read_text()):
            assert included.startswith("uroce/"), f"{name} includes {included}"


def check_symbols(library):
    """The shared object exports only what the headers declare, with the version that its name says."""
    assert re.search(r"SONAME.*\[liburoce\.so\.0\.1\]", run("readelf", "-d", library))
    lines = run("nm", "-DC", "--defined-only", library).splitlines()
    names = [line.split(maxsplit=2)[2] for line in lines]
    foreign = [name for name in names if not re.match(
        r"(UROCE_0\.1$|(typeinfo for |typeinfo name for |vtable for |void )?uroce::)", name)]
    assert not foreign, foreign
    inside = [name for name in names if re.search(r"uroce::(Engine|Qp|Requester|Responder|EndpointImpl|DpdkPort)::", name)]
    assert not inside, inside
    assert any("uroce::rdma::Device::turn" in name for name in names), names


def build(prefix, sources, scratch, name, libraries, more=()):
    program = scratch / name
    run("g++", *STANDARD, "-O2", "-Wall", "-Wextra", "-Werror", *prefix.flags("--cflags"), *more, sources / f"{name}.cc",
        "-o", program, *libraries)
    return program


def run_application(program, scratch, environment):
    """Two processes over a wire of shared memory."""
    sides = []
    for number, role in ((1, "server"), (2, "client")):
        device = f"net_memif0,role={role},socket={scratch}/wire.sock,socket-abstract=no,bsize=4352,rsize=8"
        cpus = "(%s)" % ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0))[:8])
        words = [program, f"--lcores=0@{cpus},1@{cpus}", "--no-huge", "-m", "64", "--no-pci", "--no-shconf", "--no-telemetry",
                 f"--file-prefix=library{os.getpid()}{role}", f"--vdev={device}", "--", f"198.18.0.{number}/24", *(["198.18.0.1"] if role == "client" else [])]
        sides.append(subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True,
                                      env={**environment, "RUNTIME_DIRECTORY": str(scratch)}))
    server, client = sides
    try:
        # The client, which ends with its standard input, ends before the server, which may still be in the middle of a
        # burst.
        outputs = [server.communicate(timeout=120), client.communicate(timeout=60)]
    finally:
        for side in sides:
            side.kill()
            side.wait()
    for side, (out, err) in zip(sides, outputs):
        assert side.returncode == 0 and "done: 2000 writes of 8192 bytes" in out, f"{side.returncode}\n{out}{err}"


def build_examples(prefix, scratch):
    """As a user would who has only the installed prefix."""
    folder = pathlib.Path(__file__).resolve().parents[3] / "apps/examples/library"
    names = sorted(path.stem for path in folder.glob("*.cc"))
    assert len(names) >= 6, names
    for name in names:
        build(prefix, folder, scratch, name, [*prefix.flags("--libs"), *dpdk("--libs")], dpdk("--cflags"))


def main():
    build_folder, sources = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="uroce-library-") as name:
        scratch = pathlib.Path(name)
        prefix = Prefix(build_folder, scratch / "destdir")
        check_headers(prefix, scratch)
        check_symbols(prefix.lib / "liburoce.so")
        shared = prefix.flags("--libs")
        environment = {**os.environ, "LD_LIBRARY_PATH": str(prefix.lib)}
        two = build(prefix, sources, scratch, "two_devices", shared)
        print(run(two, env=environment), end="")
        application = build(prefix, sources, scratch, "lcore_writes", [*shared, *dpdk("--libs")], dpdk("--cflags"))
        run_application(application, scratch, environment)
        build_examples(prefix, scratch)
        # The archive: the program contains the transport, and needs no shared object of ours.
        static = build(prefix, sources, scratch, "two_devices",
                       [prefix.lib / "liburoce.a", *dpdk("--libs"), "-lpthread"])
        assert "liburoce" not in run("readelf", "-d", static)
        print(run(static), end="")


if __name__ == "__main__":
    main()
