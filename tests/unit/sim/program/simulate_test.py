#!/usr/bin/env python3
"""uroce-sim as a user runs it: its table, its files, and that tshark reads its captures.

    simulate_test.py UROCE-SIM
"""

import csv
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = None


def simulate(*options, code=0):
    done = subprocess.run([PROGRAM, *options], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != code:
        raise AssertionError(f"{options}: {done.returncode}, {done.stdout}{done.stderr}")
    return done.stdout if code == 0 else done.stderr


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


class Simulate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_files_agree_with_the_table(self):
        text = simulate("--topology", "star:9", "--workload", "incast:8:100k", "--csv", self.folder, "--duration", "1ms")
        self.assertIn("flows    8 begun, 8 done, 0 failed", text)
        flows = rows(self.folder / "flows.csv")
        self.assertEqual({row["status"] for row in flows}, {"done"})
        self.assertEqual({row["bytes"] for row in flows}, {"100000"})
        # Eight flows through one cable: the last ends when all have passed, 8 * 108.2 kB at 100 Gb/s, plus the path's
        # delay.
        self.assertAlmostEqual(max(float(row["fct_us"]) for row in flows), 8 * 108.2e3 * 8 / 100e3 + 4.3, delta=2)
        queues = rows(self.folder / "queues.csv")
        self.assertEqual({row["port"] for row in queues}, {"s0>h0"})
        self.assertGreater(max(int(row["bytes"]) for row in queues), 400_000)
        samples = rows(self.folder / "samples.csv")
        self.assertEqual(len(samples), 100)
        self.assertTrue(all(0 <= float(row["jain"]) <= 1.0001 for row in samples))

    def test_long_flows_share_and_their_rates_are_written(self):
        simulate("--topology", "dumbbell:2", "--workload", "long", "--csv", self.folder, "--duration", "500us", "--sample", "5us")
        rates = [float(row["gbps"]) for row in rows(self.folder / "rates.csv") if float(row["time_us"]) > 200]
        self.assertGreater(len(rates), 8)
        for rate in rates:
            self.assertAlmostEqual(rate, 46.3, delta=3)

    @unittest.skipUnless(shutil.which("tshark"), "tshark is not installed")
    def test_tshark_reads_every_cable(self):
        simulate("--topology", "star:3", "--workload", "incast:2:20k", "--pcapng", self.folder, "--duration", "100us")
        self.assertEqual({path.name for path in self.folder.iterdir()}, {"h0_s0.pcapng", "h1_s0.pcapng", "h2_s0.pcapng"})
        fields = subprocess.run(
            ["tshark", "-r", self.folder / "h1_s0.pcapng", "-T", "fields", "-e", "frame.interface_name", "-e", "ip.src", "-e",
             "infiniband.bth.opcode", "-e", "frame.time_relative"], capture_output=True, text=True, check=True).stdout
        lines = [line.split("\t") for line in fields.splitlines()]
        self.assertEqual({line[0] for line in lines}, {"h1_s0"})
        sent = [line for line in lines if line[1] == "10.0.0.2"]
        answers = [line for line in lines if line[1] == "10.0.0.1"]
        self.assertEqual([line[2] for line in sent], ["6"] + ["7"] * 18 + ["8"])
        self.assertEqual(answers[-1][2], "17")
        times = [float(line[3]) for line in lines]
        self.assertEqual(times, sorted(times))

    def test_captures_of_some_cables_only(self):
        simulate("--topology", "star:3", "--workload", "incast:2:1k", "--pcapng", self.folder, "--capture", "s0_h2")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["h2_s0.pcapng"])

    def test_connections_come_and_go(self):
        text = simulate("connect", "--count", "300", "--faults", "loss 2%; duplicate 2%", "--seed", "5")
        self.assertRegex(text, r"^300 connections of 300 stand after [0-9.]+ ms \([0-9]+ a second\); 0 failed, 0 half open\n")
        self.assertIn("; 0 left over; ", text)
        self.assertRegex(text, r"client: .* retries [1-9]")
        self.assertRegex(text, r"server: .* requests 300 ")
        options = ["connect", "--count", "50", "--faults", "loss 5%", "--hash", "--seed"]
        self.assertEqual(simulate(*options, "3"), simulate(*options, "3"))
        self.assertNotEqual(simulate(*options, "3"), simulate(*options, "4"))
        self.assertIn("--faults", simulate("connect", "--faults", "luck", code=2))

    def test_the_same_seed_is_the_same_run(self):
        options = ["--topology", "leaf-spine:2:2:3", "--workload", "poisson:hadoop:0.4", "--duration", "200us",
                   "--faults", "loss 0.1%", "--hash", "--seed"]
        self.assertEqual(simulate(*options, "3"), simulate(*options, "3"))
        self.assertNotEqual(simulate(*options, "3"), simulate(*options, "4"))

    def test_faults_of_one_cable(self):
        text = simulate("--topology", "star:3", "--workload", "incast:2:50k", "--timeout", "5",
                        "--fault", "h1_s0=drop 3rd data")
        self.assertIn("cables   1 lost", text)
        self.assertIn("packet_seq_err 1", text)

    def test_flow_control_by_nics_and_by_engines_loses_nothing(self):
        options = ["--topology", "star:65", "--workload", "incast:64:256Ki", "--window", "4096", "--buffer", "8M"]
        for who in ("hardware", "engine"):
            text = simulate(*options, "--nic-pfc", who, "--csv", self.folder, "--pauses")
            self.assertIn("flows    64 begun, 64 done, 0 failed", text)
            self.assertRegex(text, r"marked, 0 dropped, [1-9][0-9]* pauses")
            self.assertEqual("rx_pause_frames" in text, who == "engine")
            self.assertRegex(text, r"h64>s0 +[1-9][0-9]* times, ")
            cables = {row["cable"]: row for row in rows(self.folder / "cables.csv")}
            self.assertEqual(len(cables), 2 * 65)
            self.assertGreater(int(cables["h1>s0"]["pauses"]), 0)
            self.assertEqual(cables["s0>h0"]["pauses"], "0")
        self.assertNotIn(" 0 dropped", simulate(*options, "--nic-pfc", "none"))

    def test_a_slow_host_pauses_its_switch(self):
        options = ["--topology", "star:3", "--workload", "incast:2:2M", "--slow", "h0=20us", "--nic-rx-frames", "512",
                   "--window", "4096"]
        self.assertNotIn("receive queues dropped", simulate(*options, "--nic-pfc", "engine"))
        self.assertIn("receive queues dropped", simulate(*options, "--pfc", "off"))

    def test_a_storm_in_one_direction(self):
        text = simulate("--topology", "star:3", "--workload", "long:h1>h0", "--duration", "5ms", "--watchdog", "2ms",
                        "--fault", "h0>s0=pause-storm prio=3 from 1ms for 2500us", "--pauses")
        self.assertRegex(text, r"watchdog fired 1 times")
        self.assertIn("25 pause frames injected", text)
        self.assertNotRegex(text, r"h0>s0 ")

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "Matplotlib is not installed")
    def test_pictures(self):
        script = pathlib.Path(__file__).parents[4] / "apps" / "uroce_sim" / "pictures.py"
        done = subprocess.run([sys.executable, script, PROGRAM, "spreading", "--out", self.folder], capture_output=True,
                              text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"h11>t1 +[1-9][0-9]* times")
        picture = (self.folder / "spreading.svg").read_text()
        self.assertTrue(picture.startswith("<svg"))
        self.assertLess(len(picture), 60_000)

    def test_own_topology_and_trace(self):
        topology = self.folder / "net"
        topology.write_text("host a b\nswitch s\nlink a s 10G 2us\nlink b s 40G 1us\n")
        trace = self.folder / "trace"
        trace.write_text("# start from to bytes\n5us a b 10000\n20us b a 4096 read\n")
        simulate("--topology-file", topology, "--workload", f"trace:{trace}", "--csv", self.folder / "out")
        flows = rows(self.folder / "out" / "flows.csv")
        self.assertEqual([(row["from"], row["to"], row["kind"], row["start_us"]) for row in flows],
                         [("a", "b", "write", "5.000"), ("b", "a", "read", "20.000")])
        for row in flows:
            self.assertAlmostEqual(float(row["slowdown"]), 1, delta=0.01)

    def test_what_is_wrong_is_said(self):
        self.assertIn("'cube' is not a topology", simulate("--topology", "cube", code=2))
        self.assertIn("'sleep' is not a workload", simulate("--workload", "sleep", code=2))
        self.assertIn("is not a time", simulate("--duration", "5", code=2))
        self.assertIn("--faults", simulate("--faults", "lose some", code=2))
        self.assertIn("of a cable that is there", simulate("--fault", "x_y=loss 1%", code=2))
        self.assertIn("HOST=TIME", simulate("--slow", "h0=late", code=2))
        self.assertIn("cannot read", simulate("--topology-file", self.folder / "none", code=2))


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    outcome = unittest.main(exit=False).result
    for test, why in outcome.skipped:
        print(f"skipped: {test}: {why}")
    sys.exit(0 if outcome.wasSuccessful() else 1)
