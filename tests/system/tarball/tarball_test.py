#!/usr/bin/env python3
"""The tarball, unpacked and run as a stranger would: no build tree, no variables, nobody's rights.

    tarball_test.py --tarball FILE [--programs FOLDER]                    on this machine
    tarball_test.py --tarball FILE --release NAME --roots FOLDER          in a bare root file system of a release of Debian

Each program runs in a mount namespace in which the sources and the build are hidden, or in the root file system, as user
65534. Exit code 77, with the reason, where that cannot be had.
"""

import argparse
import contextlib
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "programs"))

from children import Children, free_tcp_port, wait_for_listener  # noqa: E402

import roots  # noqa: E402

NOBODY = 65534
SECONDS = 90
HERE = pathlib.Path(__file__).resolve()


class Skip(Exception):
    """Why this cannot be tried here."""


class Place:
    """Where programs run: the folder of the tarball, and what stands before each command."""

    def __init__(self, scratch, children):
        self.children = children
        self.scratch = scratch
        if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0:
            raise Skip("mount namespaces need root and unshare")

    def prepare(self):
        """Commands of a shell, in the mount namespace."""
        raise NotImplementedError

    def start(self, name, command, environment=None, network=""):
        """`network`: commands that prepare a network namespace for it alone."""
        variables = [f"{key}={value}" for key, value in {"PATH": "/usr/bin:/bin", **(environment or {})}.items()]
        return self.children.start(name, ["unshare", "--mount", *(["--net"] if network else []), "sh", "-ec", network + self.prepare() + self.enter([*variables, *command])])

    def run(self, name, command, environment=None, code=0, network=""):
        child = self.start(name, command, environment, network)
        assert child.wait(SECONDS), f"{name}: still runs\n{child.output()}"
        assert child.exit_code == code, f"{name}: ended with {child.exit_code} instead of {code}\n{child.output()}"
        return child.output()


class Machine(Place):
    """This machine, without the sources and the build."""

    def __init__(self, scratch, children, hidden):
        super().__init__(scratch, children)
        self.hidden = hidden
        self.folder = scratch / "inside"

    def prepare(self):
        covers = "".join(f"mount -t tmpfs none {shlex.quote(str(path))}\n" for path in self.hidden)
        return f"{covers}mount --bind {shlex.quote(str(self.folder))} /tmp\n"

    def enter(self, words):
        return f"exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups env -i {shlex.join(words)}\n"


class Release(Place):
    """A root file system of a release of Debian."""

    def __init__(self, scratch, children, root):
        super().__init__(scratch, children)
        self.root = root
        self.folder = scratch / "inside"

    def prepare(self):
        root = shlex.quote(str(self.root))
        return (f"mount --rbind /proc {root}/proc\nmount --rbind /dev {root}/dev\nmount --rbind /sys {root}/sys\n"
                f"mount --bind {shlex.quote(str(self.folder))} {root}/tmp\n")

    def enter(self, words):
        return f"exec chroot --userspec={NOBODY}:{NOBODY} --groups= {shlex.quote(str(self.root))} /usr/bin/env -i {shlex.join(words)}\n"


def unpack(tarball, place):
    """As /tmp/the folder, seen from inside; its name has a blank in it, and a folder of the user's has a link to it."""
    place.folder.mkdir()
    place.folder.chmod(0o1777)
    (place.folder / "captures").mkdir()
    os.chown(place.folder / "captures", NOBODY, NOBODY)
    with tarfile.open(tarball) as archive:
        (top,) = {name.split("/")[0] for name in archive.getnames()}
        archive.extractall(place.folder / "un packed")
    (place.folder / "links").mkdir()
    (place.folder / "links/uroce").symlink_to(f"../un packed/{top}/bin/uroce")
    return pathlib.PurePosixPath("/tmp/un packed") / top


def each_starts(place, top):
    """Every symbol is found at once, and every program says its version."""
    names = sorted(path.name for path in (place.folder / top.relative_to("/tmp") / "bin").iterdir())
    assert "uroce" in names and "uroced" in names and "uroce-switch" in names and "uroce-lint" in names, names
    for name in names:
        said = place.run(name, [f"{top}/bin/{name}", "--version"], {"LD_BIND_NOW": "1"})
        assert any(character.isdigit() for character in said), f"{name}: {said}"


def doctor(place, top):
    said = place.run("doctor", [f"{top}/bin/uroce", "doctor"])
    assert f"{top}/lib/liburoce_verbs.so" in said, said
    said = place.run("doctor, by a link", ["/tmp/links/uroce", "doctor"])
    assert f"{top}/lib/liburoce_verbs.so" in said, said


def devices(place, _top):
    said = place.run("ibv_devinfo", ["/tmp/links/uroce", "run", "--", "ibv_devinfo", "-v"], {"LD_BIND_NOW": "1"})
    assert "uroce0" in said and "PORT_ACTIVE" in said, said


def pair(place, run_words, words):
    port = str(free_tcp_port())
    command = ["/tmp/links/uroce", "run", *run_words, "--", *words, "-p", port]
    server = place.start("server", command)
    assert wait_for_listener(server, int(port), SECONDS), f"{words}: nobody listens\n{server.output()}"
    client = place.start("client", [*command, "127.0.0.1"])
    for child in (client, server):
        assert child.wait(SECONDS) and child.exit_code == 0, f"{words}: {child.name} {child.exit_code}\n{server.output()}\n{client.output()}"
    return client.output()


def bandwidth(place, _top):
    assert "65536" in pair(place, [], ["ib_write_bw", "-s", "65536", "-n", "1000"])


def connections(place, _top):
    """rping asks for its connection by address, and compares what comes back."""
    port = str(free_tcp_port())
    words = ["/tmp/links/uroce", "run", "--", "rping", "-a", "127.0.0.1", "-p", port, "-C", "20", "-V", "-v"]
    server = place.start("server", [*words, "-s"])
    deadline = time.monotonic() + SECONDS
    while True:  # nothing tells when it listens
        client = place.start("client", [*words, "-c"])
        assert client.wait(SECONDS), client.output()
        if client.exit_code == 0 or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    assert client.exit_code == 0 and "ping data" in client.output(), client.output() + server.output()
    assert server.wait(SECONDS), server.output()


def pings(place, _top):
    server = place.start("ping server", ["/tmp/links/uroce", "ping", "--port", "shmlan", "--serve"])
    assert server.wait_for_output("serving pings", SECONDS), server.output()
    said = place.run("ping", ["/tmp/links/uroce", "ping", "--port", "shmlan", "127.0.0.1"])
    assert "3 sent, 3 answered" in said and "to MTU 4096" in said, said
    server.stop()


def through_a_switch(place, top):
    switch = place.start("switch", [f"{top}/bin/uroce-switch", "--ports", "2"])
    deadline = time.monotonic() + SECONDS
    while "switch" not in place.run("doctor", [f"{top}/bin/uroce", "doctor"]).replace("--port switch", "").split("default port")[1].split("locked")[0]:
        assert time.monotonic() < deadline and switch.exit_code is None, switch.output()
    capture = "/tmp/captures/%p.pcapng"
    assert "4096" in pair(place, ["--port", "switch", "--pcap", capture], ["ib_send_bw", "-s", "4096", "-n", "100"])
    switch.stop()
    judged = [place.run("uroce-lint", [f"{top}/bin/uroce-lint", f"/tmp/captures/{path.name}"]) for path in (place.folder / "captures").glob("*.pcapng")]
    assert len(judged) == 2, judged


def on_the_network(place, _top):
    """A program that asks for the network starts uroced, from beside the library."""
    network = "ip link set lo up\nip link add lan0 type veth peer name lan1\nip addr add 10.77.0.1/24 dev lan0\nip link set lan0 up\nip link set lan1 up\n"
    said = place.run("ibv_devinfo on the network", ["/tmp/links/uroce", "run", "--port", "network", "--", "ibv_devinfo", "-v"], network=network)
    assert ("::ffff:10.77.0.1, RoCE v2" in said or "ffff:0a4d:0001" in said) and "uroce:" not in said, said
    assert any(path.name.startswith("uroced.") for path in place.folder.rglob("uroced.*.log")), said


def numbers_for_prometheus(place, top):
    """Also that a program with DPDK inside finds its drivers, and what it needs to speak HTTP."""
    port = free_tcp_port()
    daemon = place.start("uroced", [f"{top}/bin/uroced", "--port", "net_null0", "--addr", "10.0.0.3/24", "--metrics", f"127.0.0.1:{port}"])
    assert daemon.wait_for_output("uroced is ready", SECONDS), daemon.output()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS) as answer:
        text = answer.read().decode()
    daemon.stop()
    assert "uroce_uplink_tx_packets_total" in text, text


def refusals(place, top):
    """Exceptions find their way, also from a library that is loaded by force."""
    said = place.run("a wrong option", [f"{top}/bin/uroce", "--nonsense"], code=2)
    assert said.count("\n") == 1, said
    place.run("a wrong address", ["/tmp/links/uroce", "run", "--addr", "300.1.1.1/24", "--", "ibv_devinfo"], code=2)


CHECKS = (each_starts, doctor, devices, bandwidth, connections, pings, through_a_switch, on_the_network, numbers_for_prometheus, refusals)


def wait_for_the_last(scratch):
    """The uroced that a program started is nobody's child, and ends some seconds after that program."""
    def is_left():
        for mounts in pathlib.Path("/proc").glob("[0-9]*/mountinfo"):
            with contextlib.suppress(OSError):
                if scratch.name in mounts.read_text():
                    return True
        return False

    deadline = time.monotonic() + SECONDS
    while is_left():
        assert time.monotonic() < deadline, "a program still runs in the folder"
        time.sleep(0.1)


def make_place(wanted, scratch, children):
    if not wanted.release:
        for program in ("ib_write_bw", "rping", "ibv_devinfo"):
            if not shutil.which(program):
                raise Skip(f"{program} is not installed (scripts/install-deps.sh check)")
        return Machine(scratch, children, [wanted.tarball.parents[2], HERE.parents[3]])
    wanted.roots.mkdir(parents=True, exist_ok=True)
    try:
        return Release(scratch, children, roots.make(wanted.release, wanted.roots.resolve()))
    except roots.Missing as missing:
        raise Skip(f"{wanted.release} cannot be had here: {missing}") from missing


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tarball", type=lambda text: pathlib.Path(text).resolve(), required=True)
    options.add_argument("--release")
    options.add_argument("--roots", type=pathlib.Path)
    wanted = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="uroce-tarball-") as scratch, Children() as children:
        try:
            pathlib.Path(scratch).chmod(0o755)
            place = make_place(wanted, pathlib.Path(scratch), children)
            top = unpack(wanted.tarball, place)
            for check in CHECKS:
                begun = time.monotonic()
                check(place, top)
                print(f"{check.__name__}: ok ({time.monotonic() - begun:.1f} s)", flush=True)
            children.stop()
            wait_for_the_last(pathlib.Path(scratch))
        except Skip as reason:
            print(f"skipped: {reason}")
            return 77
        except BaseException:
            with contextlib.suppress(OSError):
                print(children.report())
            raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
