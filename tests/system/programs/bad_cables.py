"""Programs behind bad cables: `uroce run --faults`, on any port."""

import re
import subprocess
import tempfile
import time

from logged_pairs import LOGGED, counters_of, expect_counted, printed_by, run_logged_pair
from outputs import check_bandwidth, rows
from segments import build_program
from session import Failure, Scenario


def _pair(session, words, faults):
    """(server, client), both ended well. `faults`: (the server's, the client's); "" is none."""
    return run_logged_pair(session, words, [["--faults", text] if text else [] for text in faults])


def _bandwidth(program, faults, *happened):
    """The program ends well over a cable with these faults on both sides, and the faults are counted and repaired."""

    def body(session):
        server, client = _pair(session, [program, "-n", "1000"], (faults, faults))
        problems = check_bandwidth(printed_by(client), (65536,))
        if problems:
            raise Failure("; ".join(problems))
        expect_counted(counters_of(server.output() + client.output()), *happened)

    return body


def _mesh(faults, *happened):
    """Every byte arrives as it was sent."""

    def body(session):
        with tempfile.TemporaryDirectory() as folder:
            program = build_program(folder, "verbs_mesh")
            for words, messages in (("4 mesh 4096 300", 3600), ("4 star 16384 100 events", 600)):
                child = session.start(f"mesh of {words}", 0, [program, *words.split()], LOGGED, ["--faults", faults])
                session.expect_exit(child, 60)
                if child.exit_code != 0 or f"{messages} messages" not in child.output():
                    raise Failure(f"{words}: exit {child.exit_code}, {messages} messages expected")
                expect_counted(counters_of(child.output()), "retransmits", *happened)

    return body


# Of a frame with 1024 bytes of payload: Ethernet, IPv4, UDP, BTH, iCRC, and the gap between frames on a cable.
HEADER_BYTES = 14 + 20 + 8 + 12 + 4 + 24
RETH_BYTES = 16


def rate(session):
    """The measured rate is the cap. The queue in front of it lasts for a second, so that other load on the machine does
    not matter."""
    bits_per_second = 4e6
    words = ["ib_write_bw", "-s", "4096", "-m", "1024", "-q", "8", "-t", "16", "-u", "20", "-D", "6", "-f", "1"]
    _, client = _pair(session, words, ("", f"rate {bits_per_second / 1e6:.0f}M"))
    measured = rows(printed_by(client))[0][2][1] * 2**20 * 8
    possible = bits_per_second * 4096 / (4096 + 4 * HEADER_BYTES + RETH_BYTES)
    if not 0.9 * possible < measured < 1.1 * possible:
        raise Failure(f"{measured / 1e6:.2f} Mbit/s, {possible / 1e6:.2f} are possible")


def marks(session):
    """A queue in front of a rate cap marks waiting packets, and DCQCN reacts."""
    cc = ["--cc", "dcqcn"]
    faults = ["--faults", "rate 100M; ecn kmin=20K,kmax=200K,pmax=0.1"]
    server, client = run_logged_pair(session, ["ib_write_bw", "-n", "300", "-u", "18"], (cc, cc + faults))
    sent, heard = counters_of(client.output()), counters_of(server.output())
    expect_counted(sent, "fault_ecn_marked", "rp_cnp_handled")
    if heard.get("np_ecn_marked_roce_packets", 0) != sent["fault_ecn_marked"]:
        raise Failure(f"{sent['fault_ecn_marked']} were marked, {heard.get('np_ecn_marked_roce_packets')} arrived so")


def small_queue(session):
    """Packets for which the queue in front of the rate has no room are lost, and sent again."""
    _, client = _pair(session, ["ib_write_bw", "-n", "100", "-u", "12"], ("", "rate 200M; queue 100K"))
    expect_counted(counters_of(client.output()), "fault_queue_full", "retransmits")


def _delay(*words):
    """Each direction takes 2 ms and not much more, also for a program that sleeps meanwhile. A thread that did not know
    of the delayed frame would sleep for 100 ms."""

    def body(session):
        _, client = _pair(session, [*words, "-n", "200"], ("delay all by 2ms", "delay all by 2ms"))
        least, _, typical = rows(printed_by(client))[0][2][:3]
        if not 2000 <= least <= typical < 20_000:
            raise Failure(f"{least} us at least and {typical} us typically, each way")

    return body


def last_words(session):
    """Frames that are delayed when a program ends are still sent: its peer waits for this acknowledgement, and would
    ask in vain."""
    _pair(session, ["ibv_rc_pingpong", "-n", "5", "-g", "1"], ("", "delay all by 30ms"))


def seed(session):
    """The log states the faults with a seed, in the syntax in which they can be repeated."""
    words = ["ib_write_lat", "-n", "100"]
    faults = ("duplicate 20%", "")
    for _ in range(2):
        server, _ = _pair(session, words, faults)
        said = re.search(r"uroce: faults: (duplicate 0.2 within 20000ns; seed \d+)$", server.output(), re.MULTILINE)
        if not said or faults[0] not in ("duplicate 20%", said[1]):
            raise Failure(f"the log does not say '{faults[0]}' with a seed")
        expect_counted(counters_of(server.output()), "fault_out_duplicated")
        faults = (said[1], "")


def stats(session):
    """`uroce stats` shows the cable's faults while they happen."""
    faults = ["--faults", "loss 1%; rate 1G"]
    server, client = session.start_pair(["ib_write_bw", "-D", "6"], ([], faults))
    deadline = time.monotonic() + 20
    shown = ""
    while "fault_out_lost" not in shown or "fault_queue_most_bytes" not in shown:
        if time.monotonic() > deadline:
            raise Failure(f"uroce stats shows no faults: {shown}")
        time.sleep(0.2)
        shown = subprocess.run([session.uroce, "stats", str(client.pid)], capture_output=True, text=True, check=False,
                               timeout=20).stdout
    shown = subprocess.run([session.uroce, "stats", "--all", str(server.pid)], capture_output=True, text=True, check=False,
                           timeout=20).stdout
    if "retransmits" not in shown or "fault" in shown:
        raise Failure(f"the server asked for no faults: {shown}")


REFUSED = {
    "explode": "explode: no such fault",
    "loss=1%": "loss=1%: no such fault",
    "loss 200%": "'200%' stands where a probability",
    "in: rate 1G": "only for what is sent",
    "rate 12": "bits a second",
    "loss 1%; ecn on": "name that, too",
    "seed 1": "no fault is named",
}


def refused(session):
    """A malformed text gives one line and exit code 2, before the program starts."""
    for text, why in REFUSED.items():
        done = subprocess.run([session.uroce, "run", "--port", session.wire.port(0), "--faults", text, "--", "echo", "ran"],
                              capture_output=True, text=True, check=False, timeout=20)
        if done.returncode != 2 or done.stdout or done.stderr.count("\n") != 1 or why not in done.stderr:
            raise Failure(f"'{text}': exit {done.returncode}, {done.stdout}{done.stderr}")


LOSS, REORDER, DUPLICATE = "loss 1%", "reorder 5% within 100us", "duplicate 2%"
LOST, REORDERED, DUPLICATED = "fault_out_lost", "fault_out_reordered", "fault_out_duplicated"
BOTH_WAYS = f"{LOSS}; {REORDER}; {DUPLICATE}; in: {LOSS}; {REORDER}; {DUPLICATE}; corrupt 1e-2"
BOTH_HAPPENED = (LOST, REORDERED, DUPLICATED, "fault_in_lost", "fault_in_reordered", "fault_in_duplicated",
                 "fault_in_corrupted")


def _of_every_program():
    # A copy of a READ response, after the original, answers nothing.
    for program, copy in (("ib_write_bw", "duplicate_request"), ("ib_send_bw", "duplicate_request"),
                          ("ib_read_bw", "rx_drop_ghost_ack")):
        for name, faults, *happened in (("lossy", LOSS, LOST, "retransmits"), ("reordered", REORDER, REORDERED, "retransmits"),
                                        ("duplicated", DUPLICATE, DUPLICATED, copy)):
            yield Scenario(f"{program}_{name}_segment", _bandwidth(program, faults, *happened), "segment", timeout_s=60)


SCENARIOS = [
    *_of_every_program(),
    Scenario("segment_mesh_lossy", _mesh(LOSS, LOST), "segment", timeout_s=90),
    Scenario("segment_mesh_reordered", _mesh(REORDER, REORDERED), "segment", timeout_s=90),
    Scenario("segment_mesh_duplicated", _mesh(DUPLICATE, DUPLICATED), "segment", timeout_s=90),
    Scenario("segment_mesh_bad_both_ways", _mesh(BOTH_WAYS, *BOTH_HAPPENED), "segment", "long", timeout_s=90),
    Scenario("ib_write_bw_lossy_veth", _bandwidth("ib_write_bw", LOSS, LOST, "retransmits"), "veth", "veth", timeout_s=60),
    Scenario("ib_write_bw_lossy_card", _bandwidth("ib_write_bw", LOSS, LOST, "retransmits"), "card", "card", timeout_s=60),
    Scenario("faults_rate", rate, "segment", company="alone"),
    Scenario("faults_rate_card", rate, "card", "long", company="alone"),
    Scenario("faults_marks", marks, "segment"),
    Scenario("faults_small_queue", small_queue, "segment"),
    Scenario("faults_delay_write", _delay("ib_write_lat"), "segment"),
    Scenario("faults_delay_asleep", _delay("ib_send_lat", "-e"), "segment"),
    Scenario("faults_delay_asleep_card", _delay("ib_send_lat", "-e"), "card", "card"),
    Scenario("faults_last_words", last_words, "segment"),
    Scenario("faults_seed", seed, "segment"),
    Scenario("faults_stats", stats, "segment"),
    Scenario("faults_refused", refused, "segment"),
]
