"""What uroce-switch has to do, one function a test: `body(tools)` raises Failure."""

import dataclasses
import math
import os
import signal
import subprocess
import tempfile
import time
from typing import Callable

import bridges
import hostile
import live
from lab import KernelHosts, Lab, bandwidth_mib, one_line, packets_in
from outputs import check_bandwidth, check_latency, check_pingpong
from session import Failure

# perftest sets timeout 14 (67 ms) and retry_cnt 7: the budget is 8 x 67 ms, and up to four times that is allowed.
RETRY_BUDGET_S = 4 * 8 * 0.0671 + 1

PINGPONG_BYTES = 2 * 4096 * 1000

# The size of a port's queue in shared memory: frames sent by the switch, and not read by a program that ended
# meanwhile.
UNREAD = 256 + 64


def expect(problems):
    if problems:
        raise Failure("; ".join(problems))


def start_pingpong(lab, **environments):
    return lab.start_pair("ibv_rc_pingpong", "-g", "1", "-c", **environments)


def two_pairs(tools):
    with Lab(tools, "--ports", "4") as lab:
        pingpong = start_pingpong(lab)
        bandwidth = lab.start_pair("ib_write_bw", "-n", "1000")
        expect(check_pingpong(lab.finish(pingpong), PINGPONG_BYTES))
        expect(check_bandwidth(lab.finish(bandwidth), (65536,)))
        payload = 65536 * 1000
        if lab.sum("rx_bytes", range(4)) < payload + PINGPONG_BYTES:
            raise Failure("the switch has not seen all of it")
        rows = [line.split()[:3] for line in lab.stop_switch().splitlines()]
        for number in range(4):
            if [str(number), "program", str(number)] not in rows:
                raise Failure(f"the last table has no line for port {number}")


def three_pairs(tools):
    with Lab(tools, "--ports", "6") as lab:
        pairs = [start_pingpong(lab), lab.start_pair("ib_write_bw", "-n", "500"),
                 lab.start_pair("ib_send_lat", "-n", "500")]
        outputs = [lab.finish(pair) for pair in pairs]
        expect(check_pingpong(outputs[0], PINGPONG_BYTES))
        expect(check_bandwidth(outputs[1], (65536,)))
        expect(check_latency(outputs[2], (2,)))


def peer_killed_and_replaced(tools):
    """The survivor gets its error, a third program is not disturbed, and the ports are used again."""
    with Lab(tools, "--ports", "3") as lab:
        holder = lab.start("holder", ["ibv_asyncwatch"])
        if not holder.wait_for_output("async event FD", 20):
            raise Failure("the holder did not start")
        for _ in range(3):
            pair = lab.start_pair("ib_write_bw", "-D", "30")
            time.sleep(1.5)
            if pair.client.exit_code is not None:
                raise Failure("the client ended before its peer was killed")
            pair.server.signal(signal.SIGKILL)
            if not pair.client.wait(RETRY_BUDGET_S + 15):
                raise Failure("the client hangs after its peer was killed")
            if pair.client.crashed() or pair.client.exit_code == 0:
                raise Failure(f"the client ended with {pair.client.exit_code}")
        expect(check_pingpong(lab.finish(start_pingpong(lab)), PINGPONG_BYTES))
        if holder.exit_code is not None:
            raise Failure("the third program was disturbed")
        if lab.switch.exit_code is not None:
            raise Failure("the switch has ended")


def kill_and_replace_often(tools):
    with Lab(tools, "--ports", "2") as lab:
        for turn in range(25):
            pair = lab.start_pair("ib_write_bw", "-D", "30")
            time.sleep(0.3 + 0.05 * turn)
            for child in (pair.server, pair.client):
                child.signal(signal.SIGKILL)
                child.wait(5)
            if lab.switch.exit_code is not None:
                raise Failure(f"the switch ended in round {turn}")
        expect(check_pingpong(lab.finish(start_pingpong(lab)), PINGPONG_BYTES))


def switch_killed_and_restarted(tools):
    with Lab(tools, "--ports", "2") as lab:
        holder = lab.start("holder", ["ibv_asyncwatch"])
        if not holder.wait_for_output("async event FD", 20):
            raise Failure("the holder did not start")
        lab.switch.signal(signal.SIGKILL)
        lab.switch.wait(5)
        refused = lab.start("refused", ["ibv_devinfo"])
        if not refused.wait(20) or refused.exit_code == 0:
            raise Failure("a program started although the switch is gone")
        if "no switch 'lab' is running" not in one_line(refused.output()):
            raise Failure("the launcher does not say that the switch is gone")
        lab.start_switch()
        deadline = time.monotonic() + 10
        while lab.port(0)["link"] == 0:
            if time.monotonic() > deadline:
                raise Failure("a program that was there before does not come back")
            time.sleep(0.1)
        holder.signal(signal.SIGINT)
        holder.wait(5)
        expect(check_pingpong(lab.finish(start_pingpong(lab)), PINGPONG_BYTES))


def loss(tools):
    """The program completes, about 1 % is lost, and what the switch sent is what arrived."""
    with Lab(tools, "--ports", "2", "--impair", "loss 1%") as lab:
        capture = lab.folder / "server.pcapng"
        pair = lab.start_pair("ib_write_bw", "-n", "300", server_environment={"UROCE_PCAP": str(capture)})
        expect(check_bandwidth(lab.finish(pair, 90), (65536,)))
        time.sleep(0.2)
        frames, lost = lab.sum("out_frames", (0, 1)), lab.sum("out_lost", (0, 1))
        spread = math.sqrt(frames * 0.01 * 0.99)
        if frames < 4800 or abs(lost - frames * 0.01) > 5 * spread:
            raise Failure(f"{lost} of {frames} frames were lost, 1 % was wanted")
        port = lab.port(0)
        arrived = packets_in(capture, "frame.packet_flags_direction == 1")
        sent = port["tx_frames"] - port["out_lost"]
        if not 0 <= sent - arrived <= UNREAD + port.get("drop_no_link", 0):
            raise Failure(f"{arrived} frames arrived, {port['tx_frames']} were sent and {port['out_lost']} lost")
        for number in (0, 1):
            for name, value in lab.port(number).items():
                if name.startswith("drop_") and name not in ("drop_port_down", "drop_no_link", "drop_no_route") and value:
                    raise Failure(f"port {number}: {name} {value}")


def exact_rules(tools):
    """They affect one direction of one port, and no other."""
    with Lab(tools, "--ports", "2", "--impair", "0:drop 2nd send; drop 40th send", "--impair",
             "1:in:delay 5-7 send by 3ms") as lab:
        expect(check_pingpong(lab.finish(start_pingpong(lab)), PINGPONG_BYTES))
        first, second = lab.port(0), lab.port(1)
        wanted = {"out_dropped_by_rule": 2, "out_rule0_hits": 1, "out_rule1_hits": 1}
        for name, value in wanted.items():
            if first.get(name) != value:
                raise Failure(f"{name} is {first.get(name)}, not {value}")
        if first["out_rule0_fits"] < 4000 or second.get("in_delayed_by_rule") != 3 or "out_frames" in second:
            raise Failure(f"the rules did not see what they should: {first} {second}")
        if "drop 2nd send" not in lab.stop_switch().replace("drop 2 send", "drop 2nd send"):
            raise Failure("the table does not show the rules")


def rate_cap(tools):
    """No more gets through than the cap allows. That it is not less either, where nothing but the cap is slow, is
    tested in virtual time (RateCap in tests/unit/fabric/egress_test.cc)."""
    rate = 100e6
    with Lab(tools, "--ports", "2", "--rate", "100M") as lab:
        text = lab.finish(lab.start_pair("ib_write_bw", "-n", "200", "-m", "4096"))
        goodput = bandwidth_mib(text) * 2**20 * 8
        # Ethernet, IPv4, UDP, BTH, iCRC and what Ethernet adds on the cable: 82 bytes for 4096.
        best = rate * 4096 / (4096 + 14 + 20 + 8 + 12 + 4 + 24)
        if not 0 < goodput <= 1.05 * best:
            raise Failure(f"{goodput / 1e6:.0f} Mbit/s through a cap that lets {best / 1e6:.0f} through")
        if any(value for name, value in lab.port(1).items() if name in ("drop_egress_share", "drop_buffer_full")):
            raise Failure("the switch's buffer ran over")


def ecn_marks(tools):
    """A capped port marks ECT packets, and exactly those that arrive marked."""
    with Lab(tools, "--ports", "2", "--rate", "200M", "--ecn", "kmin=20K,kmax=100K,pmax=1") as lab:
        capture = lab.folder / "server.pcapng"
        pair = lab.start_pair("ib_write_bw", "-n", "200", "-x", "1", "--tclass", "2", *live.PATIENT,
                              server_environment={"UROCE_PCAP": str(capture)})
        expect(check_bandwidth(lab.finish(pair), (65536,)))
        time.sleep(0.2)
        port = lab.port(0)
        marked = port["ecn_marked"]
        unread = port["tx_frames"] - packets_in(capture, "frame.packet_flags_direction == 1")
        arrived = packets_in(capture, "frame.packet_flags_direction == 1 && ip.dsfield.ecn == 3")
        # All were acknowledged; only retransmitted copies may have arrived too late.
        if marked == 0 or not 0 <= marked - arrived <= unread <= UNREAD + port.get("drop_no_link", 0):
            raise Failure(f"the switch marked {marked} packets, {arrived} arrived marked, {unread} did not arrive")
        if packets_in(capture, "ip.checksum.status == \"Bad\"") != 0:
            raise Failure("marking has broken IP checksums")


def switch_capture(tools):
    """Each port is an interface in the file, and every frame is in it."""
    with tempfile.TemporaryDirectory() as folder:
        capture = f"{folder}/switch.pcapng"
        begun = time.time()
        with Lab(tools, "--ports", "3", "--pcapng", capture) as lab:
            expect(check_pingpong(lab.finish(start_pingpong(lab)), PINGPONG_BYTES))
            time.sleep(0.3)
            ports = [lab.port(number) for number in (0, 1, 2)]
            lab.stop_switch()
            for number in (0, 1):
                seen = packets_in(capture, f"frame.interface_id == {number} && frame.packet_flags_direction == 1")
                if seen < ports[number]["rx_frames"] or seen == 0:
                    raise Failure(f"port {number} received {ports[number]['rx_frames']} frames, {seen} are in the file")
            ages = packets_in(capture, f"frame.time_epoch < {begun} || frame.time_epoch > {time.time()}")
            if ages != 0:
                raise Failure(f"{ages} frames have the time of another day")


def eal_arguments(tools):
    """As for every DPDK application; and a device given to EAL is a port as well."""
    cpu = str(min(os.sched_getaffinity(0)))
    eal = ("-l", cpu, "--no-huge", "-m", "192", "--no-pci", "--no-telemetry", "--no-shconf", "--vdev=net_null0,no-rx=1")
    with Lab(tools, "--ports", "2", eal=eal) as lab:
        if "port 2: net_null0" not in lab.switch.output():
            raise Failure("EAL's device is no port")
        expect(check_pingpong(lab.finish(start_pingpong(lab)), PINGPONG_BYTES))
        if "net_null0" not in lab.stop_switch():
            raise Failure("EAL's device is not in the table")


def _refused(tools, words, says, environment):
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run([*words], capture_output=True, text=True, check=False, timeout=60,
                                env={**environment, "UROCE_RUNTIME_DIR": folder})
        if result.returncode <= 0:
            raise Failure(f"{words}: exit code {result.returncode}")
        line = one_line(result.stderr)
        if says not in line or result.stdout:
            raise Failure(f"{words}: {line!r} does not say {says!r}")


def bad_arguments(tools):
    switch = [tools.switch]
    for words, says in (
            (["--rate", "1X"], "--rate 1X"),
            (["--rate", "0"], "--rate 0"),
            (["--rate", "4:1G"], "the last of 4 is 3"),
            (["--rate", "in:1G"], "--rate"),
            (["--impair", "loose 1%"], "loose"),
            (["--impair", ""], "--impair"),
            (["--impair", "9:in:loss 1%"], "port 9"),
            (["--ecn", "kmin=5M,kmax=1M"], "kmin is above kmax"),
            (["--ecn", "kmin=x"], "kmin=x"),
            (["--pfc", "8"], "--pfc 8"),
            (["--pfc", "3,"], "--pfc 3,"),
            (["--ports", "1"], "one port"),
            (["--ports", "65"], "65"),
            (["--buffer", "none"], "--buffer none"),
            (["--name", "a/b"], "a/b"),
            (["--port", "eth0"], "eth0"),
            (["--ports", "1", "--port", "net_af_packet0,iface=nosuch7"], "nosuch7"),
            (["--ports", "1", "--port", "switch:lab"], "switch:lab"),
            (["--ports", "1", "--port", "shmlan:"], "name of a segment"),
            (["--nonsense"], "--nonsense"),
            (["--pcapng", "/proc/nothing/file"], "/proc/nothing/file"),
            (["--ports", "2", "--pfc", "3", "--buffer", "100K"], "too small")):
        _refused(tools, [*switch, *words], says, os.environ)
    for port, says in (("switch:nosuch", "no switch 'nosuch' is running"), ("switch:", "name of a switch")):
        _refused(tools, [tools.uroce, "run", "--port", port, "--", "ibv_devinfo"], says, os.environ)


def every_port_taken(tools):
    with Lab(tools, "--ports", "2") as lab:
        holders = [lab.start(f"holder {i}", ["ibv_asyncwatch"]) for i in range(2)]
        for holder in holders:
            if not holder.wait_for_output("async event FD", 20):
                raise Failure("a holder did not start")
        third = lab.start("third", ["ibv_devinfo"])
        if not third.wait(20) or third.exit_code == 0:
            raise Failure("the third program was not refused")
        line = one_line("\n".join(text for text in third.output().splitlines() if text.startswith("uroce")))
        if "all 2 ports of the switch 'lab' are taken" not in line or str(holders[0].pid) not in line:
            raise Failure(f"it says {line!r}")
        again = lab.children.start("again", [tools.switch], lab.environment)
        if not again.wait(30) or again.exit_code == 0 or "is running already" not in one_line(again.output()):
            raise Failure("two switches of the same name")


def kernel_tcp(tools):
    """Two kernel hosts on the same switch, with the same faults."""
    with KernelHosts(tools, "--rate", "200M", "--impair", "0:in:drop every 200 any") as lab:
        result = lab.tcp(3)
        rate = result["sum_received"]["bits_per_second"]
        if not 1e6 < rate < 205e6:
            raise Failure(f"{rate / 1e6:.1f} Mbit/s through a cap of 200")
        counters = lab.port(0)
        if counters["in_dropped_by_rule"] == 0 or result["sum_sent"]["retransmits"] == 0:
            raise Failure("nothing was lost")
        if counters["in_dropped_by_rule"] != counters["in_rule0_fits"] // 200:
            raise Failure(f"not every 200th frame was dropped: {counters}")


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    body: Callable
    suite: str = "programs"
    timeout_s: int = 90
    company: str = "beside"  # other tests; or "alone", as what is measured needs both CPUs


SCENARIOS = [
    Scenario("switch_two_pairs", two_pairs),
    Scenario("switch_three_pairs", three_pairs),
    Scenario("switch_peer_killed_and_replaced", peer_killed_and_replaced, suite="long"),
    Scenario("switch_killed_and_restarted", switch_killed_and_restarted),
    Scenario("switch_kill_and_replace_often", kill_and_replace_often, suite="long", timeout_s=240),
    Scenario("switch_loss", loss, timeout_s=120),
    Scenario("switch_exact_rules", exact_rules),
    Scenario("switch_rate_cap", rate_cap, company="alone"),
    Scenario("switch_ecn_marks", ecn_marks, company="alone"),
    Scenario("switch_capture", switch_capture, suite="long"),
    Scenario("switch_eal_arguments", eal_arguments),
    Scenario("switch_bad_arguments", bad_arguments),
    Scenario("switch_every_port_taken", every_port_taken),
    Scenario("switch_hostile_peers", hostile.hostile_peers, suite="long", timeout_s=120),
    Scenario("switch_crowded_port", hostile.crowded_port, suite="long", timeout_s=120),
    Scenario("switch_two_segments", bridges.two_segments, timeout_s=120),
    Scenario("switch_faults_between_segments", bridges.faults_between_segments, suite="long"),
    Scenario("switch_killed_between_segments", bridges.killed_between_segments, suite="long", timeout_s=120),
    Scenario("switch_second_way", bridges.second_way),
    Scenario("switch_one_segment_twice", bridges.one_segment_twice),
    Scenario("switch_segment_and_interface", bridges.segment_and_interface, suite="veth"),
    Scenario("switch_kernel_tcp", kernel_tcp, suite="veth"),
    Scenario("switch_fair_share", live.fair_share, suite="long", company="alone"),
    Scenario("switch_fair_share_of_unequals", live.fair_share_of_unequals, suite="long", timeout_s=120, company="alone"),
    Scenario("switch_pfc", live.pfc, suite="long"),
    Scenario("switch_pfc_of_reads", live.pfc_of_reads, suite="long"),
    Scenario("switch_pfc_of_atomics", live.pfc_of_atomics, suite="long"),
    Scenario("switch_xdp_port", live.xdp_ports, suite="veth"),
    Scenario("switch_other_interfaces", live.other_interfaces, suite="veth"),
    Scenario("switch_long_frames", live.long_frames, suite="veth"),
    Scenario("switch_pfc_between_interfaces", live.pfc_between_interfaces, suite="long"),
    Scenario("switch_algorithms", live.algorithms, suite="long", company="alone"),
    Scenario("switch_selective_repeat", live.selective, suite="long"),
    Scenario("switch_one_side_knows", live.one_side_knows, suite="long"),
]
