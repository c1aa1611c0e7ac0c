#!/usr/bin/env python3
"""Which programs meet on a machine, and what a user reads when something is in the way.

    meetings.py UROCE TEST [PROGRAM | OPTION...]
"""

import glob
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "programs"))

from children import free_tcp_port, listens  # noqa: E402

SKIP = 77
NOBODY = 65534


class Machine:
    """Programs under `uroce run`, all ended at the end."""

    def __init__(self, uroce):
        self.uroce = uroce
        # Other users must be able to enter it: their own directories lie in it.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="uroce-meet-"))
        self.folder.chmod(0o755)
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def environment(self, directory="run", **more):
        path = self.folder / directory
        return dict(os.environ, UROCE_RUNTIME_DIR=str(path), **more)

    def start(self, words, environment, wrapper=(), stdin=subprocess.DEVNULL):
        process = subprocess.Popen([*wrapper, *words], env=environment, stdin=stdin, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        self.running.append(process)
        return process

    def start_run(self, *words, options=(), environment=None, wrapper=()):
        return self.start([self.uroce, "run", *options, "--", *words], environment or self.environment(), wrapper)

    def run(self, *words, options=(), environment=None, wrapper=(), timeout=60):
        """(exit status, all output)"""
        process = self.start_run(*words, options=options, environment=environment, wrapper=wrapper)
        output, _ = process.communicate(timeout=timeout)
        return process.returncode, output

    def wait_for_device(self, process, environment=None, seconds=20):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and process.poll() is None:
            words = [self.uroce, "stats", str(process.pid)]
            if subprocess.run(words, env=environment or self.environment(), capture_output=True, check=False).returncode == 0:
                return
            time.sleep(0.05)
        raise AssertionError(f"no endpoint of process {process.pid}: {process.poll()}")


def wait_for_listener(process, port, seconds=20):
    deadline = time.monotonic() + seconds
    while not listens(int(port), process.pid):
        assert time.monotonic() < deadline and process.poll() is None, f"nobody listens: {process.poll()}"
        time.sleep(0.05)


def read_until(process, texts, seconds=20):
    """The output up to where each of the texts has appeared."""
    deadline = time.monotonic() + seconds
    output = ""
    while not all(text in output for text in texts):
        left = deadline - time.monotonic()
        assert left > 0 and select.select([process.stdout], [], [], left)[0], output
        part = os.read(process.stdout.fileno(), 65536)
        assert part, output
        output += part.decode(errors="replace")
    return output


def as_nobody():
    """The command prefix that runs a program as another user; skips where that is not possible."""
    wrapper = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    if os.geteuid() != 0 or subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode != 0:
        print("skipped: cannot become another user here")
        sys.exit(SKIP)
    return wrapper


def third_program(machine):
    """The third program on a wire is told which kind of port has room for it; it can still list the device."""
    options = ["--port", "net_mqnic0"]
    for _ in range(2):
        machine.wait_for_device(machine.start_run("ibv_asyncwatch", options=options))
    status, output = machine.run("ibv_asyncwatch", options=options)
    assert status != 0, output
    assert "--port shmlan" in output and "uroce-switch" in output and "--port switch" in output, output
    status, output = machine.run("ibv_devices", options=options)
    assert status == 0 and "uroce0" in output, output


def many_programs(machine):
    """Without any settings there is room for a third and a fourth program, and all have the same addresses."""
    for _ in range(3):
        machine.wait_for_device(machine.start_run("ibv_asyncwatch"))
    status, output = machine.run("ibv_devinfo", "-v")
    assert status == 0 and "PORT_ACTIVE" in output, output
    ports = re.findall(r"^ +port +(\S+)$", subprocess.run([machine.uroce, "stats"], env=machine.environment(), capture_output=True,
                                                         text=True, check=True).stdout, re.M)
    assert ports == ["shmlan"] * 3, ports
    assert machine.run("ibv_devinfo", "-v") == (status, output), "every program has the same device"


def launcher(machine, *card):
    """A launcher lists the device, and the two programs that it starts connect; on a wire, `card`, only they use it."""
    for options in ([], card) if card else ([],):
        port = str(free_tcp_port())
        listens_there = f"cat /proc/net/tcp /proc/net/tcp6 | grep -q ':{int(port):04X} [^ ]* 0A'"
        script = f"ibv_devices | grep -q uroce0 && (ib_write_bw -n 100 -p {port} >/dev/null & until {listens_there}; do sleep 0.1; done; " \
                 f"ib_write_bw -n 100 -p {port} 127.0.0.1 && wait)"
        status, output = machine.run("sh", "-c", script, options=options, timeout=60)
        assert status == 0 and "BW average" in output, output


def own_address(machine, *card):
    """Two programs in two directories have the same address: each is told that the other is not in its directory."""
    for options in ([], card) if card else ([],):
        port = str(free_tcp_port())
        words = ["ibv_rc_pingpong", "-g", "1", "-n", "1", "-p", port]
        server = machine.start_run(*words, options=options, environment=machine.environment("one"))
        wait_for_listener(server, port)
        client = machine.start_run(*words, "127.0.0.1", options=options, environment=machine.environment("two"))
        for process in (client, server):
            read_until(process, ("is this program's own", "UROCE_RUNTIME_DIR"))


def other_users_switch(machine, switch):
    """A program that uses a switch of another user gets a message that names the owner."""
    wrapper = as_nobody()
    running = machine.start([switch, "--name", "lab", "--ports", "2"], machine.environment())
    while running.poll() is None and "port 0" not in running.stdout.readline():
        pass
    (machine.folder / "nobody").mkdir(mode=0o700)
    os.chown(machine.folder / "nobody", NOBODY, NOBODY)
    status, output = machine.run("ibv_devinfo", options=["--port", "switch:lab"], wrapper=wrapper,
                                 environment=machine.environment("nobody"))
    assert status != 0, output
    assert f"process {running.pid} of user root is a switch" in output, output
    assert len(output.strip().splitlines()) == 1, output


def user_namespace(machine):
    """Root of a user namespace has neither /run/uroce nor DPDK's directory there, and does not need them."""
    wrapper = as_nobody()
    inside = [*wrapper, "unshare", "--user", "--map-root-user"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode != 0:
        print("skipped: this machine has no user namespaces for users")
        sys.exit(SKIP)
    environment = machine.environment()
    for name in ("UROCE_RUNTIME_DIR", "XDG_RUNTIME_DIR"):
        environment.pop(name, None)
    status, output = machine.run("ibv_devinfo", wrapper=inside, environment=environment)
    assert status == 0 and "PORT_ACTIVE" in output, output

    # The same user outside the namespace uses the same directory.
    watcher = machine.start_run("ibv_asyncwatch", wrapper=inside, environment=environment)
    deadline = time.monotonic() + 60
    listed = ""
    while "ibv_asyncwatch" not in listed:
        assert time.monotonic() < deadline and watcher.poll() is None, listed
        listed = subprocess.run([*wrapper, machine.uroce, "stats"], env=environment, capture_output=True, text=True,
                                check=False).stdout
    watcher.send_signal(signal.SIGTERM)


def two_containers(machine):
    """Programs of two containers that share a directory each have their own process numbers, and do not touch each
    other's files."""
    inside = ["unshare", "--pid", "--fork", "--kill-child"]
    if os.geteuid() != 0 or subprocess.run([*inside, "true"], capture_output=True, check=False).returncode != 0:
        print("skipped: process numbers of one's own need root")
        sys.exit(SKIP)
    trees = lambda: {path.name for path in machine.folder.glob("**/sysfs-*")}
    look = "read type < /sys/class/infiniband/uroce0/node_type && echo $type"
    outside = machine.start_run("sh", "-c", f"{look}; while :; do sleep 0.1; done")
    assert outside.stdout.readline() == "1: CA\n"
    first = trees()
    assert len(first) == 1, first
    assert machine.run("sh", "-c", look, wrapper=inside) == (0, "1: CA\n")
    assert trees() >= first, ("the tree of a program that lives is gone", trees(), first)
    outside.kill()
    outside.wait()
    assert machine.run("sh", "-c", look, wrapper=inside) == (0, "1: CA\n")
    assert not trees() & first, "the tree of a program that was killed stays"


def nothing_stays_behind(machine):
    """What a killed program left behind is removed by the next one."""
    directory = machine.folder / "run"
    process = machine.start_run("ibv_asyncwatch")
    machine.wait_for_device(process)
    process.kill()
    process.wait()

    def leftovers():
        return sorted(glob.glob(f"{directory}/endpoint.*") + glob.glob(f"{directory}/dpdk/uroce-*"))

    assert len(leftovers()) == 2, leftovers()  # or the rest of this test would prove nothing
    status, output = machine.run("ibv_devinfo")
    assert status == 0, output
    assert leftovers() == [], leftovers()


def any_installation_path(machine):
    """uroce may be installed below a path with a space or a colon, which LD_PRELOAD cannot carry; where there is no
    remedy, one line says so."""
    apps = pathlib.Path(machine.uroce).resolve().parent
    for name in ("plain", "my job", "a:b"):
        for part in ("apps/uroce", "verbs_shim/liburoce_verbs.so"):
            copy = machine.folder / name / part
            copy.parent.mkdir(parents=True)
            shutil.copy(apps.parent / part, copy)
        process = machine.start([machine.folder / name / "apps/uroce", "run", "--", "ibv_devices"], machine.environment())
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0 and "uroce0" in output and "ERROR" not in output, (name, output)
    refused = machine.start([machine.folder / "my job/apps/uroce", "run", "--", "true"], machine.environment("another job"))
    output, _ = refused.communicate(timeout=60)
    assert refused.returncode == 2 and output.count("\n") == 1 and "UROCE_RUNTIME_DIR" in output, output


def bare_places(machine):
    """Without /proc the launcher's message names it; with an empty /dev programs run."""
    inside = ["unshare", "--mount", "sh", "-c"]
    if os.geteuid() != 0 or subprocess.run([*inside, "true"], capture_output=True, check=False).returncode != 0:
        print("skipped: mounting needs root")
        sys.exit(SKIP)
    bare = lambda mount: machine.run("ibv_devices", wrapper=[*inside, mount + ' && exec "$@"', "sh"])
    status, output = bare("umount -l /proc")
    assert (status, output) == (2, "uroce: there is no /proc: mount -t proc proc /proc\n"), output
    status, output = bare("mount -t tmpfs none /dev")
    assert status == 0 and "uroce0" in output, output
    status, output = machine.run("ibv_devinfo", wrapper=[*inside, 'mount -t tmpfs none /dev && exec "$@"', "sh"])
    assert status == 0 and "PORT_ACTIVE" in output, output


def missing_parts_are_named(machine):
    """A missing part that was requested is reported in one line."""
    def lines_of(text, output):
        found = [line for line in output.splitlines() if text in line]
        assert len(found) == 1, output
        return found[0]

    port = str(free_tcp_port())
    server = machine.start_run("ib_write_bw", "-c", "DC", "-p", port)
    wait_for_listener(server, port)
    _, output = machine.run("ib_write_bw", "-c", "DC", "-p", port, "127.0.0.1")
    assert "DC, SRD" in lines_of("queue pairs of type 255", output)


def programs_without_preload(machine, static_program):
    """A program into which nothing can be preloaded is refused; one that drops the preload is reported."""
    status, output = machine.run(static_program)
    assert status == 2 and "linked statically" in output, (status, output)

    fake = machine.folder / "sudo"
    fake.write_text("#!/bin/sh\nexec env -i \"$@\"\n", encoding="ascii")
    fake.chmod(0o755)
    status, output = machine.run(str(fake), "/bin/true")
    assert status == 0 and "sudo uroce run -- PROGRAM" in output, (status, output)

    wrapper = as_nobody()
    # A user whose user or group the program would change is refused, root as well, and no other: (owner, group, mode):
    # root may, nobody may.
    for owner, group, mode, root_may, nobody_may in [(0, 0, 0o4755, True, False), (NOBODY, 0, 0o4755, False, True), (0, 60, 0o2755, False, False),
                                                     (0, 60, 0o2745, True, True), (0, NOBODY, 0o2755, False, True)]:
        special = machine.folder / f"special-{owner}-{group}-{mode:o}"
        shutil.copy(shutil.which("ibv_devices"), special)
        os.chown(special, owner, group)
        special.chmod(mode)
        for may, options in ((root_may, {}), (nobody_may, {"wrapper": wrapper, "environment": machine.environment("nobodys")})):
            (machine.folder / "nobodys").mkdir(mode=0o700, exist_ok=True)
            os.chown(machine.folder / "nobodys", NOBODY, NOBODY)
            status, output = machine.run(str(special), **options)
            assert (status == 0 and "uroce0" in output) if may else (status == 2 and "changes its user or group" in output), (special, status, output)
    capable = machine.folder / "capable"
    shutil.copy(shutil.which("ibv_devinfo"), capable)
    if shutil.which("setcap") is None or subprocess.run(["setcap", "cap_net_raw+ep", str(capable)], check=False).returncode != 0:
        print("skipped: the part with file capabilities, which this machine has not")
        sys.exit(SKIP)
    environment = machine.environment()
    environment.pop("UROCE_RUNTIME_DIR")
    status, output = machine.run(str(capable), wrapper=wrapper, environment=environment)
    assert status == 2 and "carries capabilities" in output, (status, output)


def _pings(machine, port, **more):
    """(exit status, output) of a client that talks to the rping server at this port."""
    return machine.run("rping", "-c", "-a", "127.0.0.1", "-C", "1", "-p", str(port), **more)


def _start_server(machine):
    """(process, port) of an rping server that listens."""
    port = free_tcp_port()
    server = machine.start_run("rping", "-s", "-a", "127.0.0.1", "-P", "-C", "1", "-p", str(port), environment=machine.environment(UROCE_LOG="info"))
    for line in server.stdout:
        if "connections to port" in line:
            return server, port
    raise AssertionError("the server ended")


def vanished_directory(machine):
    """The directory is removed as at the end of its user's last session, or its old files are deleted: running programs
    come back and say so."""
    place = machine.folder / "run"
    for what in ("removed", "emptied"):
        server, port = _start_server(machine)
        status, output = _pings(machine, port)
        assert status == 0, (what, output)
        if what == "removed":
            place.rename(machine.folder / "gone")  # at once: programs create it again
            shutil.rmtree(machine.folder / "gone")
        else:
            for file in place.glob("**/*"):
                if file.is_file():
                    file.unlink()
        for line in server.stdout:
            if "was removed or emptied, and is made anew" in line:
                break
        status, output = _pings(machine, port)
        assert status == 0, (what, output)
        assert server.poll() is None
        server.kill()
        server.wait()


def _wait_for(what, seconds=20):
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return found


def vanished_files(machine, *on_a_card):
    """The files of telemetry, a capture and /sys in the runtime directory are created again after all were removed,
    with or without the directory."""
    place = machine.folder / "run"
    reader = "import sys\nfor line in sys.stdin: print(open('/sys/class/infiniband/uroce0/ports/1/state').read().strip(), flush=True)"
    for options in ([], *([list(on_a_card)] if on_a_card else [])):
        for what in ("removed", "emptied"):
            environment = machine.environment(UROCE_LOG="info")
            watcher = machine.start_run("ibv_asyncwatch", environment=environment, options=options)
            for line in watcher.stdout:
                if "async event FD" in line:
                    break
            shows = machine.start([machine.uroce, "run", "--", sys.executable, "-c", reader], machine.environment(), stdin=subprocess.PIPE)
            capture = machine.start([machine.uroce, "capture", "-w", str(machine.folder / "all.pcapng")], machine.environment())
            for again in (False, True):
                shows.stdin.write("now\n")
                shows.stdin.flush()
                assert shows.stdout.readline() == "4: ACTIVE\n", (what, again)
                _wait_for(lambda: list(place.glob("capture.*.all")))
                if again:
                    break
                if what == "removed":
                    place.rename(machine.folder / "gone")  # at once: programs create it again
                    shutil.rmtree(machine.folder / "gone")
                else:
                    for file in place.glob("**/*"):
                        if not file.is_dir():
                            file.unlink(missing_ok=True)
                for line in watcher.stdout:
                    if "`uroce stats` finds this program were removed, and are made anew" in line:
                        break
            listed = subprocess.run([machine.uroce, "ls"], env=machine.environment(), capture_output=True, text=True, check=False, timeout=30)
            assert re.search(rf"^ *{watcher.pid} .* running$", listed.stdout, re.M), (what, listed)
            server, port = _start_server(machine)
            status, output = _pings(machine, port)
            assert status == 0, (what, output)
            for process in (server, watcher, shows):
                process.kill()
                process.wait()
            capture.send_signal(signal.SIGINT)
            output, _ = capture.communicate(timeout=30)
            assert re.search(r"[1-9]\d* packets of [2-9] programs, 0 lost", output), (what, output)


def any_directory_name(machine):
    """Programs are listed wherever their directory is, even where its name is too long for a socket's address."""
    for name in ("short", "with space", "long" * 30):
        environment = machine.environment(name)
        (machine.folder / name).mkdir(mode=0o700)
        watcher = machine.start_run("ibv_asyncwatch", environment=environment)
        assert "async event FD" in watcher.stdout.readline(), name
        listed = subprocess.run([machine.uroce, "ls"], env=environment, capture_output=True, text=True, check=False, timeout=30)
        assert re.search(rf"^{watcher.pid} .* running$", listed.stdout, re.M), (name, listed)
        watcher.send_signal(signal.SIGTERM)


def confined_server(machine, program):
    """A program that opened the device and then dropped its rights connects with one that starts later, in either
    direction. Where the directory excludes its new user, it says so once."""
    if os.geteuid() != 0:
        print("skipped: a root directory of one's own, and another user, need root")
        sys.exit(SKIP)
    cases = {"run": ("chroot",), "everybody": ("chroot", "setuid", "both")}
    for name in cases:
        (machine.folder / name).mkdir()
    (machine.folder / "run").chmod(0o700)
    (machine.folder / "everybody" / "shmlan").mkdir()
    (machine.folder / "everybody" / "shmlan").chmod(0o1777)
    for name, kinds in cases.items():
        environment = machine.environment(name)
        for how in kinds:
            for confined_listens in (True, False):
                port = str(free_tcp_port())
                words = (program, "listen" if confined_listens else "connect", port, how)
                confined = machine.start([machine.uroce, "run", "--", *words], environment, stdin=subprocess.PIPE)
                assert confined.stdout.readline() == "ready\n"
                other = machine.start_run(program, "connect" if confined_listens else "listen", port, environment=environment)
                if not confined_listens:
                    assert other.stdout.readline() == "ready\n"
                    confined.stdin.write("go\n")
                    confined.stdin.flush()
                output = [process.communicate(timeout=60)[0] for process in (other, confined)]
                assert [other.returncode, confined.returncode] == [0, 0], (name, how, confined_listens, output)
                assert output[1] == "fine\n", output
                assert not pathlib.Path("/usr/share", str(machine.folder).lstrip("/")).exists(), "something was made behind the new root"
                assert output[0].endswith("fine\n"), output
    port = str(free_tcp_port())
    barred = machine.start_run(program, "listen", port, "setuid")
    assert barred.stdout.readline() == "ready\n"
    client = machine.start_run(program, "connect", port)
    line = barred.stdout.readline()
    assert "may not look into the directory where programs meet any more, since it changed its user" in line, line
    output, _ = client.communicate(timeout=40)
    assert "connection: Connection refused" in output and "has changed its user" in output, output
    assert not select.select([barred.stdout], [], [], 2)[0], barred.stdout.readline()


def af_xdp_without_rights(machine):
    """A user who may open packet sockets, with the usual limit of lockable memory, is told what else AF_XDP needs."""
    if os.geteuid() != 0:
        print("skipped: capabilities are given by root")
        sys.exit(SKIP)
    (machine.folder / "run").mkdir(mode=0o700)
    os.chown(machine.folder / "run", NOBODY, NOBODY)
    rights = "+net_raw,+net_admin"
    wrapper = ["unshare", "--net", "sh", "-c", 'ip link add x0 type veth peer name x1 && ip link set x0 up && exec "$@"', "sh",
               "prlimit", "--memlock=8388608:8388608", "setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups",
               "--inh-caps", rights, "--ambient-caps", rights]
    status, output = machine.run("ibv_devinfo", options=["--port", "net_af_xdp0,iface=x0", "--addr", "10.9.0.2/24"], wrapper=wrapper)
    assert status != 0 and "net_af_xdp needs root, or CAP_SYS_ADMIN" in output and "ulimit -l" in output, (status, output)


def sanitized_program(machine, program):
    """A program built with the address sanitizer needs no settings."""
    status, output = machine.run(program)
    assert status == 0 and re.search(r"^opened uroce0$", output, re.M), (status, output)


TESTS = [third_program, many_programs, launcher, own_address, other_users_switch, user_namespace, two_containers, nothing_stays_behind,
         any_installation_path, bare_places, missing_parts_are_named, programs_without_preload, sanitized_program, vanished_directory, vanished_files, any_directory_name, confined_server,
         af_xdp_without_rights]


def main():
    uroce, name, *more = sys.argv[1:]
    test = next(t for t in TESTS if t.__name__ == name)
    with Machine(uroce) as machine:
        test(machine, *more)


if __name__ == "__main__":
    main()
