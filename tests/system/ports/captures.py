"""What `uroce capture` and `--pcap` write down."""

import fcntl
import json
import os
import re
import signal
import subprocess
import time

from endpoints import need, wait_until


def capture_is_readable(endpoints):
    """A capture is readable by tshark, complete, and in order."""
    need("ibv_rc_pingpong", "tshark")
    files = [os.path.join(endpoints.directory.name, name) for name in ("server.pcapng", "client.pcapng")]
    port = str(20000 + os.getpid() % 20000)
    command = ["ibv_rc_pingpong", "-g", "1", "-p", port, "-n", "100", "-s", "8192"]
    server = endpoints.start(["--pcap", files[0]], *command)
    endpoints.wait_for_device(server)
    time.sleep(0.3)
    client = endpoints.start(["--pcap", files[1]], *command, "127.0.0.1")
    for process in (client, server):
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output
    for file in files:
        fields = ["-T", "fields", "-e", "frame.time_epoch", "-e", "infiniband.bth.opcode", "-e", "frame.packet_flags_direction"]
        run = subprocess.run(["tshark", "-r", file, *fields], capture_output=True, text=True, timeout=60, check=True)
        rows = [line.split("\t") for line in run.stdout.splitlines()]
        times = [float(row[0]) for row in rows]
        assert times == sorted(times), "times go back"
        assert abs(times[-1] - time.time()) < 120, f"the time of day is {time.time()}, not {times[-1]}"
        # 8192 bytes are two packets of 4096: 100 messages each way are 200 SEND FIRST (0) and 200 SEND LAST (2).
        opcodes = [row[1] for row in rows]
        assert opcodes.count("0") == 200 and opcodes.count("2") == 200, {o: opcodes.count(o) for o in set(opcodes)}
        assert len({row[2] for row in rows}) == 2, "both directions are marked"


class Recording:
    """A running `uroce capture`."""

    def __init__(self, endpoints, *words):
        self.endpoints = endpoints
        self.file = os.path.join(endpoints.directory.name, f"recording{len(endpoints.running)}.pcapng")
        self.process = subprocess.Popen([endpoints.uroce, "capture", "-w", self.file, *words], env=endpoints.environment,
                                        stderr=subprocess.PIPE, text=True)
        endpoints.running.append(self.process)
        wait_until(lambda: self.sockets() or self.process.poll() is not None, "no capture")

    def sockets(self):
        return [name for name in os.listdir(self.endpoints.directory.name) if "capture." in name]

    def end(self):
        """What it prints when it is stopped."""
        self.process.send_signal(signal.SIGINT)
        _, said = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, said
        assert self.sockets() == []
        return said

    def rows(self, file=None):
        """For each packet: its program, whether it was sent, the comment, and whether tshark finds it malformed; in the
        file's order."""
        fields = ["frame.interface_name", "frame.packet_flags_direction", "frame.comment", "_ws.malformed", "frame.time_epoch"]
        run = subprocess.run(["tshark", "-r", file or self.file, "-T", "fields", *[w for f in fields for w in ("-e", f)]],
                             capture_output=True, text=True, timeout=60, check=True)
        rows = [line.split("\t") for line in run.stdout.splitlines()]
        times = [float(row[4]) for row in rows]
        assert times == sorted(times), "times go back"
        return [(row[0], {"0x00000002": True, "0x00000001": False}[row[1]], row[2], row[3]) for row in rows]


def captured_pairs(endpoints):
    """`uroce capture` records every packet of two pairs that start and end during the capture, each with its
    program."""
    need("ib_write_bw", "tshark")
    endpoints.environment.update(UROCE_PORT="shmlan", UROCE_LOG="info")
    recording = Recording(endpoints)
    own_file = os.path.join(endpoints.directory.name, "own.pcapng")
    port = 20000 + os.getpid() % 20000
    command = lambda pair, *peer: ["ib_write_bw", "-p", str(port + pair), "-n", "200", "-s", "4096", *peer]
    servers = [endpoints.start([], *command(0)), endpoints.start([], *command(1))]
    for server in servers:
        endpoints.wait_for_device(server)
    clients = [endpoints.start(["--pcap", own_file], *command(0, "127.0.0.1")), endpoints.start([], *command(1, "127.0.0.1"))]
    expected = {}
    for process in clients + servers:
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output
        counted = lambda name: int(re.search(rf"counted:.*\b{name} (\d+)", output).group(1))
        expected[f"ib_write_bw[{process.pid}]"] = (counted("tx_packets"), counted("rx_packets"))
    said = recording.end()
    rows = recording.rows()
    found = {name: tuple(sum(row[:2] == (name, sent) for row in rows) for sent in (True, False)) for name in expected}
    assert found == expected, (found, expected)
    assert said == f"uroce: {len(rows)} packets of 4 programs, 0 lost\n", said
    assert not [row for row in rows if row[3]], "malformed"
    ends = {}
    for name, sent, comment, _ in rows:
        told = re.fullmatch(rf"{re.escape(name)} QP (0x\w{{6}}) {'to' if sent else 'from'} [0-9a-f.:]+ QP (0x\w{{6}})", comment)
        assert told, (name, sent, comment)
        ends.setdefault(name, set()).add(told.groups())
    for client, server in zip(clients, servers):
        (here, there), = ends[f"ib_write_bw[{client.pid}]"]
        assert ends[f"ib_write_bw[{server.pid}]"] == {(there, here)}, ends
    assert len(recording.rows(own_file)) == sum(expected[f"ib_write_bw[{clients[0].pid}]"]), "of its own file it writes all as well"


def capture_in_bad_company(endpoints):
    """A capture that is killed does not disturb its programs and leaves nothing behind; a killed program does not
    disturb the capture."""
    need("ibv_rc_pingpong", "tshark")
    endpoints.environment["UROCE_PORT"] = "shmlan"
    command = ["ibv_rc_pingpong", "-e", "-g", "1", "-p", str(20000 + os.getpid() % 20000), "-n", "100000000", "-s", "64"]
    server = endpoints.start([], *command)
    endpoints.wait_for_device(server)
    client = endpoints.start([], *command, "127.0.0.1")
    endpoints.wait_for_device(client)
    programs = {f"ibv_rc_pingpong[{process.pid}]" for process in (server, client)}

    def has_packets_of_both(file):
        with open(file, "rb") as opened:
            written = opened.read()
        return all(f"{name} QP".encode() in written for name in programs)

    memory = lambda: [pid for pid in (server.pid, client.pid) if "uroce-capture" in open(f"/proc/{pid}/maps", encoding="ascii").read()]
    sent = lambda: json.loads(endpoints.stats("--json", str(client.pid)).stdout.splitlines()[1])["/uroce/counters"]["tx_packets"]
    killed = Recording(endpoints, "--snap", "128")
    wait_until(lambda: has_packets_of_both(killed.file), "nothing is captured")
    assert len(memory()) == 2
    refused = endpoints.run("capture", "-w", killed.file + ".2", str(client.pid))
    assert refused.returncode == 2 and f"process {client.pid} cannot be captured: another" in refused.stderr, refused
    refused = endpoints.run("capture", "-w", killed.file)
    assert refused.returncode == 2 and "being written already" in refused.stderr, refused
    killed.process.kill()
    wait_until(lambda: not killed.sockets() and not memory(), "a capture that was killed stays")
    before = sent()
    wait_until(lambda: sent() > before, "the program stands still")

    unknown = endpoints.run("capture", "-w", killed.file + ".3", "1")
    assert not os.path.exists(killed.file + ".3")
    assert (unknown.returncode, unknown.stderr) == (2, "uroce: process 1 has no open uroce device\n"), unknown
    short = endpoints.run("capture", "-w", killed.file + ".2", "--snap", "128", "--max", "100K", str(client.pid))
    assert (short.returncode, os.path.getsize(killed.file + ".2") > 100 << 9) == (0, True), short
    assert os.path.getsize(killed.file + ".2") <= 100 << 10 and "of 1 program, " in short.stderr and "the file is full" in short.stderr, short

    recording = Recording(endpoints, "--snap", "128")
    wait_until(lambda: has_packets_of_both(recording.file), "nothing is captured")
    client.kill()
    wait_until(lambda: client.poll() is not None, "it lives")
    said = recording.end()
    rows = recording.rows()
    assert {row[0] for row in rows} == programs, said
    assert re.fullmatch(rf"uroce: {len(rows)} packets of 2 programs, \d+ lost\n", said), said


def capture_to_a_pipe(endpoints):
    """tshark reads a capture of one program live, and the capture ends with that program."""
    need("ibv_rc_pingpong", "tshark")
    endpoints.environment["UROCE_PORT"] = "shmlan"
    port = str(20000 + os.getpid() % 20000)
    command = ["ibv_rc_pingpong", "-g", "1", "-p", port, "-n", "50", "-s", "1024"]
    server = endpoints.start([], *command)
    endpoints.wait_for_device(server)
    capture = subprocess.Popen([endpoints.uroce, "capture", "--once", "-w", "-", str(server.pid)], env=endpoints.environment,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    endpoints.running.append(capture)
    wait_until(lambda: "uroce-capture" in open(f"/proc/{server.pid}/maps", encoding="ascii").read(), "it did not join")
    client = endpoints.start([], *command, "127.0.0.1")
    shown = subprocess.run(["tshark", "-l", "-r", "-", "-T", "fields", "-e", "infiniband.bth.opcode", "-e", "frame.packet_flags_direction"],
                           stdin=capture.stdout, capture_output=True, text=True, timeout=60, check=False)
    assert shown.returncode == 0, (shown.stderr, capture.communicate())
    for process in (client, server):
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output
    assert capture.wait(timeout=60) == 0
    rows = [tuple(line.split("\t")) for line in shown.stdout.splitlines()]
    assert rows.count(("4", "0x00000002")) == 50, rows  # SEND ONLY
    assert {row[1] for row in rows} == {"0x00000002"}, "only what is sent"


def capture_for_a_slow_reader(endpoints):
    """A capture whose programs have ended waits for the reader of its pipe; a second signal ends it, and it reports
    what is lost."""
    need("ibv_rc_pingpong")
    endpoints.environment["UROCE_PORT"] = "shmlan"
    port = 20000 + os.getpid() % 20000

    def captured(number):
        """A capture of a program that has ended, in a pipe that holds only part of it; and the pipe's reader."""
        command = ["ibv_rc_pingpong", "-g", "1", "-p", str(port + number), "-n", "50", "-s", "1024"]
        server = endpoints.start([], *command)
        endpoints.wait_for_device(server)
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        capture = subprocess.Popen([endpoints.uroce, "capture", "--once", "-w", "-", str(server.pid)], env=endpoints.environment,
                                   stdout=writer, stderr=subprocess.PIPE, text=True)
        os.close(writer)
        endpoints.running.append(capture)
        wait_until(lambda: "uroce-capture" in open(f"/proc/{server.pid}/maps", encoding="ascii").read(), "it did not join")
        client = endpoints.start([], *command, "127.0.0.1")
        for process in (client, server):
            output, _ = process.communicate(timeout=60)
            assert process.returncode == 0, output
        time.sleep(1.5)
        assert capture.poll() is None, capture.communicate()
        return capture, reader

    capture, reader = captured(0)
    with open(reader, "rb") as pipe:
        written = pipe.read()
    _, said = capture.communicate(timeout=60)
    assert (capture.returncode, said) == (0, "uroce: 100 packets of 1 program, 0 lost\n"), said
    lengths, at = [], 0
    while at < len(written):  # blocks, which have their lengths at both ends
        lengths.append(int.from_bytes(written[at + 4:at + 8], "little"))
        at += lengths[-1]
        assert written[at - 4:at] == lengths[-1].to_bytes(4, "little"), (lengths, len(written))
    assert at == len(written) and sum(length > 1024 for length in lengths) == 50, lengths

    capture, reader = captured(1)
    capture.send_signal(signal.SIGINT)
    _, said = capture.communicate(timeout=60)
    assert capture.returncode == 1 and "the reader of - did not take the end" in said, (capture.returncode, said)
    os.close(reader)
