#!/usr/bin/env python3
"""What dpdk-testpmd does with net_mqnic, each mode and each command a test.

    testpmd.py --list                           the names of the tests
    testpmd.py PLUGIN MQNIC-CARD NAME...        runs these; exit 0 passed, 1 failed, 77 skipped
"""

import re
import sys

sys.dont_write_bytecode = True

import frames
from harness import CardServer, Failure, Testpmd, expect, main
from toeplitz import hash_ipv4

TESTS = {}


def test(function):
    TESTS["testpmd_" + function.__name__] = function
    return function


def two_cards(bench, *options, knobs="", **more):
    """Two cards in one process, joined by a cable: a frame that one forwards arrives at the other, endlessly."""
    card = f"card=inline,wire=shm:{bench.wire}{knobs}"
    return Testpmd(bench, [card, card], *options, **more)


def player(bench, sent, *options, knobs="", **more):
    """Card 0 plays frames from a file as soon as it is started, card 1 records what it receives."""
    frames.write(bench.path / "in.pcap", sent)
    return Testpmd(bench, [f"card=inline,wire=pcap:{bench.path}/in.pcap{knobs}", f"card=inline,wire=pcap::{bench.path}/out.pcap"],
                   "--no-flush-rx", *options, **more)


def play_through(bench, testpmd, count):
    """Forwards until `count` frames have left through card 1; returns the recorded ones."""
    testpmd("start")
    testpmd.wait_for(f"{count} forwarded frames", lambda: testpmd.stats(1)["TX-packets"] >= count)
    testpmd.close_without_leak()
    return frames.read(bench.path / "out.pcap")


def circulate(testpmd, at_least=2000):
    """Frames go round and round between the two cards."""
    testpmd("start tx_first")
    for port in (0, 1):
        testpmd.wait_for("frames that go round", lambda: testpmd.stats(port)["RX-packets"] > at_least)
    for port in (0, 1):
        counts = testpmd.stats(port)
        expect(counts["RX-errors"] == 0 and counts["TX-errors"] == 0, f"errors: {counts}")


@test
def io(bench):
    testpmd = two_cards(bench)
    testpmd("set fwd io")
    circulate(testpmd)
    testpmd.close_without_leak()


@test
def mac(bench):
    testpmd = two_cards(bench)
    testpmd("set fwd mac")
    circulate(testpmd)
    testpmd.close_without_leak()


@test
def several_ports(bench):
    """Two interfaces with two ports each: four ethdevs of one card, with plugs and a cable between them."""
    cables = f"wire=loop,wire=loop,wire=shm:{bench.wire},wire=shm:{bench.wire}"
    testpmd = Testpmd(bench, [f"card=inline,interfaces=2,ports=2,{cables}"])
    names = re.findall(r"net_mqnic0\S*", testpmd("show port summary all"))
    expect(names == ["net_mqnic0", "net_mqnic0_if0_port1", "net_mqnic0_if1_port0", "net_mqnic0_if1_port1"], f"ports are {names}")
    testpmd("start tx_first")
    for port in range(4):
        testpmd.wait_for(f"frames at port {port}", lambda port=port: testpmd.stats(port)["RX-packets"] > 2000)
    testpmd.close_without_leak()


@test
def two_cores(bench):
    """Two cores poll the queues of the same two cards."""
    card = f"card=inline,wire=shm:{bench.wire}"
    testpmd = Testpmd(bench, [card, card], "--rxq=2", "--txq=2", "--rss-udp", "--nb-cores=2", "--txonly-multi-flow", lcores=3)
    circulate(testpmd)
    testpmd("stop")
    testpmd("set fwd txonly")
    testpmd("clear port xstats all")
    testpmd("start")
    testpmd.wait_for("sent frames", lambda: testpmd.stats(0)["TX-packets"] > 5000)
    testpmd.close_without_leak()


@test
def rxonly_and_txonly(bench):
    card = f"card=inline,wire=shm:{bench.wire}"
    receiver = Testpmd(bench, [card])
    sender = Testpmd(bench, [card])
    receiver("set fwd rxonly")
    receiver("start")
    sender("set fwd txonly")
    sender("start")
    receiver.wait_for("received frames", lambda: receiver.stats(0)["RX-packets"] > 5000)
    sender.close_without_leak()
    receiver.wait_until_still(0)
    counts = receiver.stats(0)
    expect(counts["RX-bytes"] == 64 * counts["RX-packets"], f"not the 64-byte frames that were sent: {counts}")
    receiver.close_without_leak()


@test
def csum(bench):
    """Wrong layer 4 checksums come in, right ones computed by the card go out."""
    sent, right = frames.with_checksums(80, damaged=True)
    testpmd = player(bench, sent, "--disable-device-start")
    for port in (0, 1):
        testpmd(f"csum set udp hw {port}")
        testpmd(f"csum set tcp hw {port}")
        testpmd(f"csum set ip sw {port}")
    testpmd("port start all")
    testpmd("set fwd csum")
    got = play_through(bench, testpmd, len(sent))
    # The forwarding engine writes the MAC addresses, too.
    expect([frame[12:] for frame in got] == [frame[12:] for frame in right], difference(right, got, skip=12))


def difference(wanted, got, skip=0):
    if len(wanted) != len(got):
        return f"{len(got)} frames instead of {len(wanted)}"
    for number, (one, other) in enumerate(zip(wanted, got)):
        if one[skip:] != other[skip:]:
            return f"frame {number} is {len(other)} bytes {other[:80].hex()}..., not {len(one)} bytes {one[:80].hex()}..."
    return "no difference"


def bad_checksums(text):
    return sum(int(value) for value in re.findall(r"Bad-l4csum: (\d+)", text))


@test
def rx_checksum_verdicts(bench):
    """The card's sum shows which checksums are wrong."""
    for damaged in (True, False):
        sent, _ = frames.with_checksums(80, damaged)
        testpmd = player(bench, sent, "--enable-rx-cksum")
        testpmd("set fwd csum")
        testpmd("start")
        testpmd.wait_for("the frames", lambda: testpmd.stats(0)["RX-packets"] >= len(sent))
        found = bad_checksums(testpmd("show fwd stats all").split("Accumulated")[0])
        expect(found == (len(sent) if damaged else 0), f"{found} of {len(sent)} bad checksums found, damaged: {damaged}")
        testpmd.close_without_leak()


@test
def rss(bench):
    """Four queues: the hash in the packet buffer is Toeplitz's, and the queue is the one in the table."""
    keys, sent = frames.flows(200)
    testpmd = player(bench, sent, "--rxq=4", "--txq=4", "--rss-udp", "--nb-cores=1", "--rxd=256")
    testpmd("set fwd rxonly")
    testpmd("set verbose 1")
    wanted = sorted(hash_ipv4(*key) for key in keys)

    def seen():
        return [(int(queue, 0), int(value, 16)) for value, queue in
                re.findall(r"RSS hash=(0x[0-9a-f]+) - RSS queue=(0x[0-9a-f]+|\d+)", testpmd.output())]

    testpmd.start_talking("start", lambda: len(seen()) >= len(sent))
    testpmd.wait_for("the frames", lambda: testpmd.stats(0)["RX-packets"] >= len(sent))
    expect(sorted(value for _, value in seen()) == wanted, f"other hashes than Toeplitz's: {testpmd.output()}")
    queues = {queue for queue, _ in seen()}
    expect(queues == {0, 1, 2, 3}, f"only queues {queues} had frames")
    for queue, value in seen():
        expect(queue == value % 4, f"hash {value:#x} went to queue {queue}")
    counts = testpmd.xstats(0)
    for queue in range(4):
        expected = sum(value % 4 == queue for value in wanted)
        expect(counts[f"rx_q{queue}_packets"] == expected, f"queue {queue}: {counts}, not {expected}")
    testpmd.close_without_leak()


@test
def reta(bench):
    """All entries of the table lead to queue 2: so all frames go there, of any flow."""
    card = f"card=inline,wire=shm:{bench.wire}"
    receiver = Testpmd(bench, [card], "--rxq=4", "--txq=4", "--rss-udp", "--nb-cores=1")
    sender = Testpmd(bench, [card], "--txonly-multi-flow")
    size = int(re.search(r"Redirection table size: (\d+)", receiver("show port info 0"))[1])
    receiver("set fwd rxonly")
    sender("set fwd txonly")

    def queues_used():
        sender("start")
        receiver("clear port xstats all")
        receiver.wait_for("frames", lambda: receiver.stats(0)["RX-packets"] > 2000)
        sender("stop")
        counts = receiver.xstats(0)
        return [queue for queue in range(4) if counts[f"rx_q{queue}_packets"] != 0]

    receiver("start")
    expect(queues_used() == [0, 1, 2, 3], "not all queues had frames at first")
    for begin in range(0, size, 8):
        receiver("port config 0 rss reta " + ",".join(f"({entry},2)" for entry in range(begin, min(begin + 8, size))))
    receiver.wait_until_still(0)
    used = queues_used()
    expect(used == [2], f"queues {used} had frames, not queue 2 alone")
    receiver.close_without_leak()
    sender.close_without_leak()


@test
def stop_and_start(bench):
    """Ports are stopped and restarted under traffic."""
    testpmd = two_cards(bench)
    for _ in range(10):
        circulate(testpmd, 200)
        testpmd("stop")
        testpmd("port stop all")
        testpmd("clear port stats all")
        testpmd("port start all")
    testpmd.close_without_leak()


@test
def queues_stop_and_start(bench):
    testpmd = two_cards(bench, "--rxq=2", "--txq=2", "--nb-cores=1")
    circulate(testpmd)
    testpmd("stop")
    for what in ("rxq", "txq"):
        for queue in (0, 1):
            testpmd(f"port 0 {what} {queue} stop")
            testpmd(f"port 0 {what} {queue} start")
    testpmd("clear port stats all")
    circulate(testpmd)
    testpmd.close_without_leak()


@test
def long_ring_sizes(bench):
    """Traffic in rings of every size that the driver accepts, one after the other in the same ports."""
    testpmd = two_cards(bench, "--total-num-mbufs=150000", memory_mb=1024)
    for descriptors in [64 << n for n in range(10)] + [96, 1000]:
        testpmd("port stop all")
        for what in ("rxd", "txd"):
            testpmd(f"port config all {what} {descriptors}")
        testpmd("port start all")
        testpmd("clear port stats all")
        circulate(testpmd, 3 * descriptors)
        testpmd("stop")
    testpmd.close_without_leak()


class Load:
    """Two processes with a card each, joined by a cable, which forward in one of testpmd's modes: `io` and `macswap`
    send back what they receive, like routers; `flowgen` and `txonly` generate packets, and `rxonly` receives them."""

    WAYS = {"io": "io", "macswap": "macswap", "flowgen": "flowgen", "txonly": "rxonly"}  # the mode of the other end
    ROUND = ("io", "macswap")

    def __init__(self, bench, *options, buffers=80000, memory_mb=512):
        card = f"card=inline,wire=shm:{bench.wire}"
        self.near, self.far = (Testpmd(bench, [card], f"--total-num-mbufs={buffers}", *options, memory_mb=memory_mb) for _ in range(2))

    def run(self, way, descriptors, laps=3):
        for end, mode in ((self.near, way), (self.far, self.WAYS[way])):
            end("port stop 0")
            for what in ("rxd", "txd"):
                end(f"port config all {what} {descriptors}")
            end("port start 0")
            end(f"set fwd {mode}")
            end("clear port xstats 0")
            for queue in ("rxq", "txq"):
                size = int(re.search(r"Number of [RT]XDs: (\d+)", end(f"show {queue} info 0 0"))[1])
                expect(size == 1 << (descriptors - 1).bit_length(), f"{queue} has {size} descriptors, not {descriptors} or a little more")
        self.far("start")
        self.near("start tx_first" if way in self.ROUND else "start")
        self.far.wait_for(f"{laps} laps of {descriptors} by {way}", lambda: self.far.stats(0)["RX-packets"] > laps * descriptors)
        for end in (self.near, self.far):
            end("stop")
            counts = end.xstats(0)
            wrong = {name: value for name, value in counts.items() if value != 0 and re.search(
                "^[rt]x_(zero|foreign|wrong|lost|stale|over|clamped|no_|bad|too|errors|mbuf)", name)}
            expect("rx_wrong_index" in counts and not wrong, f"{way} with {descriptors} descriptors: {wrong or counts}")

    def close(self):
        for end in (self.near, self.far):
            end.close_without_leak()


@test
def load_at_ring_sizes(bench):
    """Rings of every size, with the modes in turn: each mode gets small rings and large ones."""
    load = Load(bench)
    for number, descriptors in enumerate(64 << n for n in (0, 9, 1, 8, 2, 7, 3, 6, 4, 5)):
        load.run(list(Load.WAYS)[number % len(Load.WAYS)], descriptors)
    load.close()


@test
def long_load_at_ring_sizes(bench):
    """Rings of every size in every mode, more sizes in between, and several queues."""
    load = Load(bench, "--rxq=2", "--txq=2", "--rss-udp", "--txonly-multi-flow", buffers=160000, memory_mb=1024)
    for way in Load.WAYS:
        for descriptors in [64 << n for n in range(10)] + [65, 96, 1000, 32767]:
            load.run(way, descriptors)
    load.close()


@test
def ring_sizes_that_cannot_be(bench):
    """DPDK reports it from the driver's limits; the next size works."""
    testpmd = two_cards(bench)
    testpmd("port stop all")
    for what in ("rxd", "txd"):
        for descriptors, why in ((63, f"less than min_{what}s (64)"), (32769, f"greater than max_{what}s (32768)")):
            expect(why in testpmd(f"port config all {what} {descriptors}"), f"{what} {descriptors} was taken")
    testpmd("port config all rxd 64")
    testpmd("port start all")
    circulate(testpmd, 200)
    testpmd.close_without_leak()


@test
def mtu(bench):
    """9000-byte packets pass once the MTU allows them."""
    testpmd = two_cards(bench, "--mbuf-size=9728", "--total-num-mbufs=5000")
    testpmd("set txpkts 9014")
    testpmd("start tx_first")
    testpmd.wait_for("frames that are too long", lambda: testpmd.stats(0)["RX-errors"] > 0)
    expect(testpmd.stats(0)["RX-packets"] == 0, "frames beyond the MTU were received")
    testpmd("stop")
    testpmd("port stop all")
    for port in (0, 1):
        testpmd(f"port config mtu {port} 9000")
    testpmd("port start all")
    expect("MTU: 9000" in testpmd("show port info 0"), "the MTU is not 9000")
    testpmd("clear port stats all")
    circulate(testpmd)
    testpmd("stop")
    counts = testpmd.stats(0)
    expect(counts["RX-bytes"] == 9014 * counts["RX-packets"], f"frames of another size: {counts}")
    testpmd.close_without_leak()


@test
def mtu_that_cannot_be(bench):
    testpmd = player(bench, frames.sized([64]))
    testpmd("port stop all")
    testpmd("port config mtu 0 9300")
    expect("MTU: 1500" in testpmd("show port info 0"), "an MTU beyond the card's was taken")
    testpmd.close_without_leak()


@test
def scatter(bench):
    """9000-byte packets in 2 KiB buffers, both ways."""
    sent = frames.sized([60, 1514, 2000, 2048, 2049, 4096, 4100, 8192, 9000, 9013, 9014] * 6)
    testpmd = player(bench, sent, "--enable-scatter", "--mbuf-size=2176", "--max-pkt-len=9018", "--tx-offloads=0x8000")
    testpmd("set fwd io")
    got = play_through(bench, testpmd, len(sent))
    wanted = [bytes(frame) for frame in sent]
    expect(got == wanted, difference(wanted, got))


@test
def sizes(bench):
    """Every size up to the default MTU."""
    sent = frames.sized(range(60, 1515, 7))
    testpmd = player(bench, sent)
    testpmd("set fwd io")
    got = play_through(bench, testpmd, len(sent))
    wanted = [bytes(frame) for frame in sent]
    expect(got == wanted, difference(wanted, got))


@test
def xstats(bench):
    testpmd = two_cards(bench)
    circulate(testpmd)
    testpmd("stop")
    counts = testpmd.xstats(0)
    basic = testpmd.stats(0)
    expect(counts["rx_good_packets"] == basic["RX-packets"], f"{counts} is not {basic}")
    own = [name for name in counts if not re.match(r"[rt]x_(good_|q\d|errors|missed|mbuf)", name)]
    expect(len(own) >= 5, f"hardly any counters of the driver itself: {sorted(counts)}")
    testpmd("clear port xstats all")
    expect(testpmd.xstats(0)["rx_good_packets"] == 0, "xstats are not cleared")
    testpmd.close_without_leak()


@test
def flow_control(bench):
    testpmd = two_cards(bench)
    for state in ("on", "off"):
        testpmd(f"set flow_ctrl rx {state} tx {state} 60000 30000 65535 1 mac_ctrl_frame_fwd off autoneg off 0")
        text = testpmd("show port 0 flow_ctrl")
        expect(f"Rx pause: {state}" in text and f"Tx pause: {state}" in text, text)
    testpmd.close_without_leak()


@test
def lossy_cable(bench):
    """The cable's faults: with a tenth lost on the way, the circulating frames die out."""
    testpmd = two_cards(bench, knobs=",loss=0.1,seed=5")
    testpmd("start tx_first")
    testpmd.wait_for("some frames", lambda: testpmd.stats(0)["RX-packets"] > 0)
    testpmd.wait_until_still(0)  # until the last one is lost
    testpmd.close_without_leak()


@test
def another_port_as_cable(bench):
    """The cable leads to another DPDK port, which plays at once: of the frames that arrive before the card receives, it
    keeps the first small ones; the rest is lost."""
    sent = [bytes(frame) for frame in frames.sized([64, 300, 1514] * 100)]
    frames.write(bench.path / "in.pcap", sent)
    testpmd = Testpmd(bench, ["card=inline,wire=port:net_pcap0", f"card=inline,wire=pcap::{bench.path}/out.pcap"], "--no-flush-rx",
                      more=[f"net_pcap0,rx_pcap={bench.path}/in.pcap,tx_pcap={bench.path}/back.pcap"])
    names = testpmd("show port summary all")
    ports = {name: int(number) for number, name in re.findall(r"^(\d+)\s+[0-9A-F:]+\s+(\S+)", names, re.MULTILINE)}
    expect(set(ports) == {"net_mqnic0", "net_mqnic1"}, f"the port that is a cable is not for others: {ports}")
    testpmd("set fwd io")
    testpmd("start")
    testpmd.wait_for("most of the frames", lambda: testpmd.stats(ports["net_mqnic1"])["TX-packets"] >= 200)
    testpmd.close_without_leak()
    got = frames.read(bench.path / "out.pcap")
    live = next((n for n in range(len(got), 0, -1) if got[-n:] == sent[-n:]), 0)
    kept, before = got[:len(got) - live], iter(sent[:len(sent) - live])
    expect(all(frame in before for frame in kept), "what was kept comes first, in its order, and what follows lacks nothing: "
           + difference(sent[-len(got):], got))
    expect(sum(-(-len(frame) // 64) for frame in kept) <= 8, f"a port that is off kept frames of {[len(frame) for frame in kept]} bytes")


@test
def served_cards(bench):
    """Two cards in separate processes, over vfio-user."""
    servers = [CardServer(bench, f"card{side}", "--wire", f"shm:{bench.wire}") for side in (0, 1)]
    testpmd = Testpmd(bench, [f"card=vfio-user,socket={server.socket}" for server in servers])
    circulate(testpmd, 500)
    testpmd.close_without_leak()
    for server in servers:
        server.end()


@test
def served_card_that_dies(bench):
    """Surprise removal: the card's process is killed under traffic. Nothing crashes, nothing leaks."""
    servers = [CardServer(bench, f"card{side}", "--wire", f"shm:{bench.wire}") for side in (0, 1)]
    testpmd = Testpmd(bench, [f"card=vfio-user,socket={server.socket}" for server in servers])
    circulate(testpmd, 200)
    servers[0].kill()
    # testpmd detaches the port in a thread of its own, and then forwards again with the other one: it must not be told
    # to stop meanwhile.
    testpmd.wait_for_words("nb forwarding ports=1")
    testpmd.wait_until_still(1)
    testpmd("show port stats all")
    testpmd.close_without_leak()


@test
def bad_arguments(bench):
    """One clear line for each, and no port."""
    for arguments, says in (("card=steam", "card="), ("card=inline,wire=rope:1", "wire"), ("card=inline,speling=1", "speling"),
                            ("card=vfio-user", "socket"), ("card=vfio-user,socket=/nonexistent/x.sock", "/nonexistent/x.sock"),
                            ("card=inline,wire=loop,mac=dog", "mac"), ("card=inline,wire=loop,loss=2", "loss"),
                            ("card=inline,wire=shm:../x", "shm")):
        testpmd = Testpmd(bench, [arguments])
        lines = [line for line in testpmd.output().splitlines() if line.startswith("net_mqnic:")]
        expect(len(lines) == 1 and says in lines[0], f"'{arguments}' is not explained in one line: {lines}")
        expect("Number of available ports: 0" in testpmd("show port summary all"), f"'{arguments}' was taken")
        testpmd.quit()


if __name__ == "__main__":
    sys.exit(main(TESTS, sys.argv[1:]))
