"""Machines that give little: what a program on a segment does there. It works, or says in one line what to change."""

import os
import pathlib
import signal
import socket
import subprocess
import tempfile

from children import free_tcp_port, wait_for_listener
from outputs import check_bandwidth, trouble
from segments import build_program
from session import Failure, Scenario
from wires import Skip

_NOBODY = 65534
_AS_NOBODY = ("setpriv", "--reuid", str(_NOBODY), "--regid", str(_NOBODY), "--clear-groups")


class Place:
    """A runtime directory of its own that every user may use, and a program that every user may start."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="uroce-hard-")
        self.path = pathlib.Path(self._folder.name)

    def __enter__(self):
        self.path.chmod(0o755)
        self.runtime = self.path / "run"
        self.runtime.mkdir(0o700)
        self.mesh = build_program(self.path, "verbs_mesh")
        return self

    def __exit__(self, *exception):
        self._folder.cleanup()

    def give_to_nobody(self):
        os.chown(self.runtime, _NOBODY, _NOBODY)


def _shell(commands):
    """A prefix that runs these commands, and then the rest of the command line."""
    return ["sh", "-ec", commands + '\nexec "$@"', "sh"]


def _mounts(commands):
    """The same, in a mount namespace of its own."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0:
        raise Skip("mount namespaces need root")
    return ["unshare", "--mount", *_shell(commands)]


def _need_root():
    if os.geteuid() != 0:
        raise Skip("only root can become another user")


def _run(session, prefix, program, environment):
    return session.start_plain("program", [*prefix, session.uroce, "run", "--port", session.wire.port(0), "--", *program],
                               environment)


def _expect_mesh(session, place, prefix, processes=4, environment=None):
    """Processes that all send to each other, and one line that says so."""
    program = [place.mesh, str(processes), "mesh", "4096", "100"]
    child = _run(session, prefix, program, {"UROCE_RUNTIME_DIR": str(place.runtime), **(environment or {})})
    session.expect_exit(child, 60)
    expected = f"{processes * (processes - 1) * 100} messages of 4096 bytes verified"
    if child.exit_code != 0 or child.output().split("\n") != [expected, ""]:
        raise Failure(f"exit {child.exit_code}; it had to say '{expected}', and nothing else")


def _expect_line(session, prefix, environment, *words):
    """A program that gets no device; one line of ours says why."""
    child = _run(session, prefix, ["ibv_devinfo"], environment)
    session.expect_refusal(child, 20, *words)
    lines = [line for line in child.output().splitlines() if line.startswith("uroce:")]
    if len(lines) != 1:
        raise Failure(f"{len(lines)} lines of ours instead of one")


def _works(prefix, processes=4, prepare=lambda place: None):
    """`prefix` is a function because only at run time can the test find out whether the machine allows it."""

    def body(session):
        with Place() as place:
            words = prefix()
            prepare(place)
            _expect_mesh(session, place, words, processes)

    return body


# All places where programs write are read-only, including separately mounted ones.
_READ_ONLY = ("for place in /tmp /var/tmp /run /dev/shm \"$HOME\" /; do\n"
              "  mountpoint -q \"$place\" || continue\n"
              "  mount -o remount,bind,ro \"$place\"\n"
              "done\n"
              "! touch /tmp/writable 2>/dev/null")


def read_only_root(session):
    """Works where one place is writable; without any, the error names the variable that sets one."""
    with Place() as place:
        on_tmpfs = _mounts(f"mount -t tmpfs none {place.runtime}\n{_READ_ONLY}")
        _expect_mesh(session, place, on_tmpfs)
        nowhere = _mounts(f"{_READ_ONLY}\nunset UROCE_RUNTIME_DIR XDG_RUNTIME_DIR")
        _expect_line(session, nowhere, {}, "read-only", "name another place with UROCE_RUNTIME_DIR")
        _expect_line(session, _mounts(_READ_ONLY), {"UROCE_RUNTIME_DIR": str(place.runtime)}, str(place.runtime), "read-only",
                     "name another place with UROCE_RUNTIME_DIR")


def full_directory(session):
    """There is no room for the few hundred bytes that other programs must read."""
    with Place() as place:
        prefix = _mounts(f"mount -t tmpfs -o size=4k none {place.runtime}\n"
                         f"head -c 4096 /dev/zero > {place.runtime}/full")
        _expect_line(session, prefix, {"UROCE_RUNTIME_DIR": str(place.runtime)}, "no space left",
                     "name another place with UROCE_RUNTIME_DIR")


def few_descriptors(session):
    """64 are enough for eight programs; when there are too few from the start, an error says so."""
    with Place() as place:
        _expect_mesh(session, place, _shell("ulimit -n 64"), processes=8)
        _expect_line(session, _shell("ulimit -n 12"), {"UROCE_RUNTIME_DIR": str(place.runtime)}, "ulimit -n 12; raise it")


def other_user(session):
    """A user without any rights, who may not even lock memory."""
    _need_root()
    with Place() as place:
        place.give_to_nobody()
        _expect_mesh(session, place, [*_shell("ulimit -l 64"), *_AS_NOBODY])


def user_namespace(session):
    """A program in a user namespace, where it is root, and one outside: the same user on the same host."""
    inside = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode != 0:
        raise Skip("this machine has no user namespaces")
    with Place() as place:
        _expect_mesh(session, place, inside)
        environment = {"UROCE_RUNTIME_DIR": str(place.runtime)}
        port = str(free_tcp_port())
        words = ["ib_write_bw", "-n", "200", "-p", port]
        server = _run(session, [], words, environment)
        if not wait_for_listener(server, int(port), 20):
            raise Failure("the server did not get as far as listening")
        client = _run(session, inside, [*words, session.wire.tcp_address(0)], environment)
        for child in (client, server):
            session.expect_exit(child, 30)
        problems = check_bandwidth(client.output(), (65536,)) + trouble(client.output())
        if client.exit_code != 0 or problems:
            raise Failure(f"the pair: exit {client.exit_code} {'; '.join(problems)}")


def _litter(directory):
    """Files with wrong content under the names that programs use."""
    ids = iter(range(0xbad0, 0xbaff))

    def name(kind):
        return directory / f"{kind}-{next(ids):016x}"

    card = "uroce segment member 1\nhost gone\nmac 02:75:00:00:00:09\naddress 10.9.9.9/24\nblock 7\npid 1\nprogram x\nend\n"
    for text in (b"", b"rubbish", os.urandom(4096), card.encode()[:40], card.encode() * 2, b"x" * 300_000, card.encode()):
        for kind in "msq":
            name(kind).write_bytes(text)
    for kind in "ms":
        name(kind).mkdir()
        name(kind).symlink_to("/dev/zero")
        name(kind).symlink_to("/nowhere")
        os.mkfifo(name(kind))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mailbox:
            mailbox.bind(str(name(kind)))
    (directory / "q-0275deadbeef").write_bytes(b"x" * 5000)
    (directory / "anything").mkdir()


def stale_directory(session):
    """A machine was switched off, its directory was on a disk, and foreign files were put into it."""
    with Place() as place:
        environment = {"UROCE_RUNTIME_DIR": str(place.runtime)}
        holders = [_run(session, [], ["ibv_asyncwatch"], environment) for _ in range(3)]
        for holder in holders:
            if not holder.wait_for_output("async event FD", 20):
                raise Failure("a holder did not start")
        directory, = place.runtime.glob("shmlan*")
        for holder in holders:
            holder.signal(signal.SIGSTOP)  # a running one would remove the files of those killed before it
        for holder in holders:
            holder.signal(signal.SIGKILL)
            holder.wait(5)
        left = sorted(path.name for path in directory.iterdir())
        if sum(entry.startswith("s-") for entry in left) != 3:
            raise Failure(f"three killed programs left {left}")
        _litter(directory)
        _expect_mesh(session, place, [])
        session.expect_exit(_run(session, [], ["ibv_devinfo"], environment), 20)
        mailboxes = [path for path in directory.glob("s-*") if path.name in left]
        if mailboxes:
            raise Failure(f"{len(mailboxes)} mailboxes of killed programs are still there")


_NO_HUGEPAGES = ("umount -a -t hugetlbfs\n"
                 "if [ -d /sys/kernel/mm/hugepages ]; then mount -t tmpfs none /sys/kernel/mm/hugepages; fi")


SCENARIOS = [
    Scenario("segment_stale_directory", stale_directory, "segment"),
    Scenario("segment_shm_full", _works(lambda: _mounts(
        "mount -t tmpfs -o size=4k none /dev/shm\nhead -c 4096 /dev/zero > /dev/shm/full")), "segment"),
    Scenario("segment_read_only_root", read_only_root, "segment"),
    Scenario("segment_full_directory", full_directory, "segment"),
    Scenario("segment_no_hugepages", _works(lambda: _mounts(_NO_HUGEPAGES)), "segment"),
    Scenario("segment_few_descriptors", few_descriptors, "segment"),
    Scenario("segment_other_user", other_user, "segment"),
    Scenario("segment_user_namespace", user_namespace, "segment"),
]
