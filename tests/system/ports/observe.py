#!/usr/bin/env python3
"""What can be seen of an endpoint from outside while it works, and that it costs nothing while it does not.

    observe.py UROCE TEST [PROGRAM]
"""

import http.client
import json
import os
import pathlib
import pty
import re
import signal
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True

import captures
from endpoints import SKIP, Endpoints, need, wait_until

PYTHON = "/usr/bin/python3"  # the distribution's, which has python3-pyverbs


def counters_move(endpoints):
    """`uroce stats` reads counters and queue pairs of programs that are busy."""
    need("ib_write_bw")
    server, client = endpoints.bandwidth_pair(30)
    sent = []
    deadline = time.monotonic() + 60
    while len(sent) < 2 and time.monotonic() < deadline:
        lines = endpoints.stats("--json", str(client.pid)).stdout.splitlines()
        answers = {}
        for line in lines:
            answers.update(json.loads(line))
        now = answers["/uroce/counters"]["tx_packets"]
        if now > 0 and (not sent or now > sent[-1]):
            sent.append(now)
        time.sleep(0.2)
    assert len(sent) == 2, f"tx_packets did not grow: {sent}"
    assert answers["/uroce/endpoint"]["program"] == "ib_write_bw", answers
    qp = next(value for key, value in answers.items() if key.startswith("/uroce/qp"))
    assert (qp["type"], qp["state"]) == ("RC", "RTS"), qp

    everybody = endpoints.stats()
    assert everybody.returncode == 0, everybody
    listed = re.findall(r"^process (\d+)$", everybody.stdout, re.M)
    assert set(listed) == {str(server.pid), str(client.pid)}, everybody.stdout
    for process in (client, server):
        process.wait(timeout=60)
    assert "no process" in endpoints.stats().stdout


def programs_are_listed(endpoints):
    """`uroce ls`, `qp` and `top` of two programs on a segment, one of which is stopped and then killed."""
    need("ib_write_bw", "dpdk-telemetry.py")
    ask = lambda *words: json.loads(endpoints.ask(*words, "--json"))
    assert "no process" in endpoints.ask("ls")
    assert ask("ls") == [] and ask("qp") == [] and ask("top", "-n", "1", "-d", "0.1") == []
    server, client = endpoints.bandwidth_pair(300)
    pids = {server.pid, client.pid}
    deadline = time.monotonic() + 60
    busy = {}
    while not (busy.get(client.pid, {}).get("send_mbps", 0) > 1 and busy[server.pid]["receive_mbps"] > 1):
        assert time.monotonic() < deadline, busy
        busy = {each["pid"]: each for each in ask("top", "-n", "1", "-d", "0.3")}
    assert set(busy) == pids, busy
    listed = {each["pid"]: each for each in ask("ls")}
    assert set(listed) == pids, listed
    for each in listed.values():
        assert each["answers"] and each["endpoint"]["program"] == "ib_write_bw" and each["endpoint"]["qps"] == 1, each
    ends = {each["pid"]: each for each in ask("qp")}
    assert ends[server.pid]["dest_qpn"] == ends[client.pid]["qpn"], ends
    assert ends[client.pid]["dest_qpn"] == ends[server.pid]["qpn"], ends
    assert (ends[client.pid]["state"], ends[client.pid]["error"]) == ("RTS", ""), ends
    text = endpoints.ask("qp", str(client.pid))
    assert re.search(rf"^ *{client.pid}  ib_write_bw  0x{ends[client.pid]['qpn']:06x}  RC +RTS ", text, re.M), text
    assert str(server.pid) not in text, text
    assert re.search(rf"^ *{client.pid}  ib_write_bw  shmlan +1 ", endpoints.ask("top", "-n", "1", "-d", "0.1"), re.M)

    told = subprocess.run(["dpdk-telemetry.py", "-f", f"uroce-{client.pid}"], input="/uroce/endpoint\n", text=True, timeout=60,
                          capture_output=True, check=True, env=dict(os.environ, RUNTIME_DIRECTORY=endpoints.directory.name))
    assert f'"pid": {client.pid}' in told.stdout or f'"pid":{client.pid}' in told.stdout, told

    # The client is the one to stop: its server waits for it patiently.
    client.send_signal(signal.SIGSTOP)
    text = endpoints.ask("ls")
    assert re.search(rf"^ *{client.pid}  does not answer", text, re.M), text
    assert re.search(rf"^ *{server.pid}  ib_write_bw  shmlan ", text, re.M), text
    assert {each["pid"]: each["answers"] for each in ask("top", "-n", "1")} == {client.pid: False, server.pid: True}
    client.kill()
    client.wait()
    assert client.pid not in [each["pid"] for each in ask("ls")]
    refused = endpoints.run("qp", str(client.pid))
    assert (refused.returncode, refused.stderr) == (2, f"uroce: process {client.pid} has no open uroce device\n"), refused


def rates_are_refreshed(endpoints):
    """`uroce top` shows the activity since its last refresh, again and again; on a terminal, it overwrites the previous
    table."""
    need("ib_write_bw")
    server, client = endpoints.bandwidth_pair(300)
    top = lambda *words, **how: subprocess.Popen([endpoints.uroce, "top", *words], env=endpoints.environment, **how)
    sent = lambda: json.loads(endpoints.stats("--json", str(client.pid)).stdout.splitlines()[1])["/uroce/counters"]["tx_bytes"]
    wait_until(lambda: sent() > 10 << 20, "no data flows")

    sent_before, begun = sent(), time.monotonic()
    process = top("-n", "3", "-d", "0.7", "--json", stdout=subprocess.PIPE, text=True)
    endpoints.running.append(process)
    shown, at = [], []
    for line in process.stdout:
        shown.append({each["pid"]: each for each in json.loads(line)})
        at.append(time.monotonic() - begun)
        if len(shown) == 2:
            client.send_signal(signal.SIGSTOP)
    assert (process.wait(timeout=60), len(shown)) == (0, 3), shown
    client.send_signal(signal.SIGCONT)
    assert all(set(each) == {server.pid, client.pid} for each in shown), shown
    assert at[1] - at[0] > 0.3 and at[2] - at[1] > 0.3, f"each is shown when its time has come: {at}"
    received = [each[server.pid]["receive_mbps"] for each in shown]
    assert received[0] > 1 and received[1] > 1 and received[0] != received[1], shown
    assert received[2] < min(received[:2]) / 2, f"nobody sends any more: {received}"
    assert [each[client.pid]["answers"] for each in shown] == [True, True, False], shown
    rates = [each[client.pid]["send_mbps"] for each in shown[:2]]
    assert rates[0] > 1 and rates[1] > 1 and rates[0] != rates[1], shown
    megabits = (sent() - sent_before) / 125e3
    assert 0.7 * sum(rates) <= megabits, f"at {rates} Mbit/s it would have sent more than {megabits:.0f} Mbit, 0.7 s each"

    master, slave = pty.openpty()
    process = top("-n", "3", "-d", "0.1", stdout=slave)
    endpoints.running.append(process)
    os.close(slave)
    text = b""
    try:
        while piece := os.read(master, 4096):
            text += piece
    except OSError:  # a terminal reports a closed other end this way
        pass
    os.close(master)
    assert process.wait(timeout=60) == 0
    _, *screens = text.decode().split("\033[H\033[2J")
    assert len(screens) == 3, text
    for screen in screens:
        assert re.match(r" *PID  PROGRAM ", screen) and screen.count("ib_write_bw") == 2, text


def errors_are_shown(endpoints):
    """`uroce qp`, `ls`, `top` and `stats` report a refused request, and a killed peer."""
    if subprocess.run([PYTHON, "-c", "import pyverbs.qp"], capture_output=True, check=False).returncode != 0:
        print("skipped: python3-pyverbs is not installed")
        sys.exit(SKIP)
    script = pathlib.Path(__file__).resolve().parent / "two_connections.py"
    ends = [endpoints.start([], PYTHON, "-B", script, stdin=subprocess.PIPE) for _ in range(2)]
    told = [end.stdout.readline() for end in ends]
    for end, about in zip(ends, reversed(told)):
        print(about, end="", file=end.stdin, flush=True)
    for end in ends:
        assert end.stdout.readline() == "connected\n", end.communicate()
    here, peer = ends
    shown = lambda process: json.loads(endpoints.ask("qp", str(process.pid), "--json"))
    first_errors = lambda process: [each["error"] for each in shown(process)]
    number = lambda name: int((re.search(rf"^  {name} +(\d+)$", endpoints.stats(str(here.pid)).stdout, re.M) or [0, 0])[1])
    assert [(each["state"], each["error"]) for each in shown(here)] == [("RTS", "")] * 2, shown(here)
    assert number("retransmits") == 0

    print("wrong key", file=here.stdin, flush=True)
    wait_until(lambda: any(first_errors(here)), "no error is shown")
    of_key = {each["qpn"]: each for each in shown(here) if each["error"]}
    (qpn, refused), = of_key.items()
    assert refused["state"] == "ERR" and refused["error"].startswith("remote access error: "), refused
    there = [each for each in shown(peer) if each["error"]]
    assert [each["dest_qpn"] for each in there] == [qpn], there
    assert there[0]["error"].startswith("a request of the peer was refused: ") and "key" in there[0]["error"], there

    peer.kill()
    peer.wait()
    print("peer killed", file=here.stdin, flush=True)
    wait_until(lambda: all(first_errors(here)), "no error of the other queue pair is shown")
    (lost,) = (each for each in shown(here) if each["qpn"] != qpn)
    assert lost["state"] == "ERR" and lost["error"].startswith("transport retry counter exceeded: "), lost
    text = endpoints.ask("qp")
    for each in (refused, lost):
        assert re.search(rf"^ *{here.pid} .* 0x{each['qpn']:06x}  RC +ERR .*  {re.escape(each['error'])}$", text, re.M), text
    assert number("retransmits") >= 7 and number("local_ack_timeout_err") >= 7, endpoints.stats(str(here.pid)).stdout
    assert number("req_cqe_error") == 2, endpoints.stats(str(here.pid)).stdout
    row = re.search(rf"^ *{here.pid} .* (\d+) +(\d+)  running$", endpoints.ask("ls"), re.M)
    assert (int(row[1]), int(row[2])) == (number("retransmits"), 2), row
    here.stdin.close()
    assert here.wait(timeout=60) == 0


def two_endpoints(endpoints, program):
    """A process with two endpoints has two rows, everywhere."""
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=endpoints.environment)
    try:
        assert process.stdout.readline() == "open\n"
        rows = json.loads(endpoints.ask("ls", "--json"))
        assert [each["pid"] for each in rows] == [process.pid] * 2, rows
        numbers = [each["endpoint_number"] for each in rows]
        assert numbers[0] != numbers[1], rows
        rates = json.loads(endpoints.ask("top", "-n", "1", "-d", "0.1", "--json"))
        assert [each["pid"] for each in rates] == [process.pid] * 2, rates
        for number in numbers:
            assert f"process {process.pid}, endpoint {number}\n" in endpoints.stats(str(process.pid)).stdout
        samples = [line for line in endpoints.ask("metrics").splitlines() if not line.startswith("#")]
        labels = [line.rsplit(" ", 1)[0] for line in samples]
        assert len(labels) == len(set(labels)), sorted(labels)
        assert sum(line.startswith("uroce_tx_packets_total{") for line in labels) == 2, labels
    finally:
        process.stdin.close()
        assert process.wait(timeout=60) == 0
    assert "no process" in endpoints.ask("ls")


def stuck_engine(endpoints, program):
    """`uroce stats` answers while a thread of the program is stuck inside the engine."""
    process = endpoints.start([], program, stdin=subprocess.PIPE)
    line = process.stdout.readline()
    if "userfaultfd" in line:
        print("skipped: " + line.strip())
        sys.exit(SKIP)
    assert line == "posting\n", line
    deadline = time.monotonic() + 60
    text = ""
    while "stuck: a thread of the program has been inside" not in text:
        assert time.monotonic() < deadline, text
        result = endpoints.stats("--all", str(process.pid))
        assert result.returncode == 0, result
        text = result.stdout
    assert re.search(r"^ +program +stuck_engine$", text, re.M), text
    assert re.search(r"^ +tx_packets +\d+$", text, re.M), text
    output, _ = process.communicate(timeout=60)  # ends its input, which makes the page appear
    assert (process.returncode, output) == (0, "done\n"), (process.returncode, output)


def cpu_ns(process):
    """The CPU time of all its threads: the ticks of /proc/PID/stat are too coarse for these measurements."""
    tasks = pathlib.Path(f"/proc/{process.pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks)


def sleeping_server(endpoints):
    """ib_send_bw that waits in ibv_get_cq_event for a client that has sent and is now stopped."""
    command = ["ib_send_bw", "-e", "-n", "5000000", "-p", str(20000 + os.getpid() % 20000)]
    server = endpoints.start([], *command)
    endpoints.wait_for_device(server)
    client = endpoints.start([], *command, "127.0.0.1")
    endpoints.wait_for_device(client)
    received = lambda: json.loads(endpoints.stats("--json", str(server.pid)).stdout.splitlines()[1])["/uroce/counters"]["rx_packets"]
    wait_until(lambda: received() > 1000, "no data flows")
    client.send_signal(signal.SIGSTOP)
    return server


def idle_costs_nothing(endpoints):
    """A program uses almost no CPU time while it waits for an event, is connected, or has an idle port of DPDK's."""
    need("ib_send_bw", "ibv_asyncwatch")
    server = sleeping_server(endpoints)
    watcher = endpoints.start(["--port", "net_null0,no-rx=1"], "ibv_asyncwatch")
    endpoints.wait_for_device(watcher)
    end = lambda: [(each["state"], each["error"]) for each in json.loads(endpoints.ask("qp", str(server.pid), "--json"))]
    time.sleep(1)
    assert end() == [("RTR", "")], end()
    before, start = [cpu_ns(process) for process in (server, watcher)], time.monotonic()
    time.sleep(6)
    elapsed_ns = (time.monotonic() - start) * 1e9
    connected, unused = [100 * (cpu_ns(process) - used) / elapsed_ns for process, used in zip((server, watcher), before)]
    print(f"idle: {connected:.3f} % of a processor, connected on the default port; {unused:.3f} %, unused on net_null")
    assert end() == [("RTR", "")], "it is connected all the time"
    assert 0 < connected < 0.5
    assert 0 < unused < 2


SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)')


def parsed_metrics(text):
    """Parsed by the rules of the text format: {(name, labels): value}, and the types."""
    assert text.endswith("\n") and "\r" not in text
    samples, types, order = {}, {}, []
    for line in text.splitlines():
        head = re.fullmatch(r"# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)", line)
        if head and head.group(1) == "TYPE":
            assert head.group(2) not in types and head.group(3) in ("counter", "gauge"), line
            types[head.group(2)] = head.group(3)
        elif not head:
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            name, labels, value = sample.groups()
            assert name in types, f"{line}: its type comes first"
            assert (name, labels) not in samples, f"{line}: twice"
            samples[name, labels] = float(value)
            if order[-1:] != [name]:
                order.append(name)
    assert len(order) == len(set(order)), "the samples of a metric stand together"
    return samples, types


def metrics_are_served(endpoints):
    """`uroce metrics` once and over HTTP, also while other clients are silent, slow, or send nonsense."""
    need("ib_write_bw")
    endpoints.environment["UROCE_PORT"] = "shmlan"
    assert endpoints.ask("metrics") == ""
    server, client = endpoints.bandwidth_pair(300)
    labels = lambda process: f'pid="{process.pid}",program="ib_write_bw",port="shmlan"'
    up = lambda samples: [samples.get(("uroce_up", f'pid="{process.pid}"')) for process in (server, client)]
    wait_until(lambda: up(parsed_metrics(endpoints.ask("metrics"))[0]) == [1, 1], "they are not up")
    samples, types = parsed_metrics(endpoints.ask("metrics"))
    assert samples["uroce_queue_pairs", labels(server)] <= 1, samples
    counters = json.loads(endpoints.stats("--json", str(client.pid)).stdout.splitlines()[1])["/uroce/counters"]
    assert {name[6:-6] for name, kind in types.items() if kind == "counter"} == set(counters), types
    assert 0 <= samples["uroce_tx_packets_total", labels(client)] <= counters["tx_packets"]

    process = subprocess.Popen([endpoints.uroce, "metrics", "--listen", "127.0.0.1:0"], env=endpoints.environment, stderr=subprocess.PIPE, text=True)
    endpoints.running.append(process)
    port = int(re.search(r"port (\d+)", process.stderr.readline()).group(1))

    def ask(method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request(method, path, body)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, answer.getheader("Content-Type"), text

    def raw(*pieces):
        """The socket of a misbehaving client that sends `pieces` at once."""
        one = socket.create_connection(("127.0.0.1", port), timeout=60)
        for piece in pieces:
            one.sendall(piece)
        return one

    silent = [raw() for _ in range(60)] + [raw(b"GET /metr") for _ in range(60)]
    nonsense = [raw(b"\0\xff" * 50 + b"\r\n\r\n"), raw(b"GET /" + b"x" * 20000), raw(b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n")]
    begun = time.monotonic()
    status, kind, text = ask("GET", "/metrics")
    assert time.monotonic() - begun < 60, "it waits for others, of whom there are 120"
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8"), (status, kind)
    served, _ = parsed_metrics(text)
    sent = lambda samples: samples.get(("uroce_tx_bytes_total", labels(client)), 0)
    wait_until(lambda: sent(parsed_metrics(ask("GET", "/metrics")[2])[0]) > sent(served), "the served text stands still")
    assert ask("HEAD", "/metrics")[0::2] == (200, "")
    assert [ask("GET", "/")[0], ask("GET", "/metrics/x")[0], ask("POST", "/metrics", "x=1")[0]] == [404, 404, 405]
    for one in silent + nonsense:
        one.close()
    client.send_signal(signal.SIGSTOP)
    assert parsed_metrics(ask("GET", "/metrics")[2])[0]["uroce_up", f'pid="{client.pid}"'] == 0
    taken = endpoints.run("metrics", "--listen", f"127.0.0.1:{port}")
    assert taken.returncode == 2 and re.fullmatch(r"uroce: cannot listen on .*: Address already in use\n", taken.stderr), taken
    wrong = endpoints.run("metrics", "--listen", "localhost")
    assert wrong.returncode == 2 and "is no address to listen on" in wrong.stderr, wrong
    process.terminate()
    assert process.wait(timeout=60) == 0


def silent_members_are_listed(endpoints):
    """`uroce ls` names all programs on the segment, even when their telemetry cannot be found."""
    need("ibv_asyncwatch")
    endpoints.environment["UROCE_PORT"] = "shmlan:quiet"
    processes = [endpoints.start([], "ibv_asyncwatch") for _ in range(2)]
    for process in processes:
        endpoints.wait_for_device(process)
    assert "tells no more" not in endpoints.ask("ls")
    quiet, other = processes
    os.unlink(os.path.join(endpoints.directory.name, f"endpoint.{quiet.pid}"))
    text = endpoints.ask("ls")
    assert re.search(rf"^ *{quiet.pid}  ibv_asyncwatch  shmlan:quiet  \S+  is on the segment", text, re.M), text
    assert re.search(rf"^ *{other.pid}  ibv_asyncwatch  shmlan.* running$", text, re.M), text
    listed = {each["pid"]: each for each in json.loads(endpoints.ask("ls", "--json"))}
    assert (listed[quiet.pid]["answers"], listed[quiet.pid]["program"]) == (False, "ibv_asyncwatch"), listed
    assert listed[quiet.pid]["addresses"], listed
    quiet.kill()
    quiet.wait()
    assert str(quiet.pid) not in endpoints.ask("ls")


TESTS = [counters_move, programs_are_listed, rates_are_refreshed, errors_are_shown, stuck_engine, two_endpoints, captures.capture_is_readable, captures.captured_pairs,
         captures.capture_in_bad_company, captures.capture_to_a_pipe, captures.capture_for_a_slow_reader, metrics_are_served, silent_members_are_listed, idle_costs_nothing]


def main():
    uroce, name, *more = sys.argv[1:]
    test = next(t for t in TESTS if t.__name__ == name)
    with Endpoints(uroce) as endpoints:
        test(endpoints, *more)


if __name__ == "__main__":
    main()
