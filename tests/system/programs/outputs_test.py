#!/usr/bin/env python3
"""The readers of programs' output accept healthy runs and name what is wrong with the others."""

import unittest

import outputs

BANDWIDTH = """
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 2          5000             5.56               5.29                 2.77
 4          5000             0.00               10.1                 2.64
"""
LATENCY = """
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99%   99.9%
 2       1000          1.20           9.99         1.31               1.35           0.10            1.6   9.9
"""
PINGPONG = """  local address:  LID 0x4d03, QPN 0x00008c, PSN 0xde3e4b, GID ::
8192000 bytes in 0.01 seconds = 8192.00 Mbit/sec
1000 iters in 0.01 seconds = 8.00 usec/iter
"""


class Outputs(unittest.TestCase):
    def test_bandwidth(self):
        self.assertEqual(outputs.check_bandwidth(BANDWIDTH, [2, 4]), [])
        self.assertEqual(outputs.check_bandwidth(BANDWIDTH, [2, 8]), ["no result line for 8 bytes (and 0 more)"])
        self.assertEqual(outputs.check_bandwidth(BANDWIDTH.replace("10.1", "0.00"), [4]), ["no bandwidth at 4 bytes"])
        slow = BANDWIDTH.replace("10.1", "0.00").replace("2.64", "0.000142")
        self.assertEqual(outputs.check_bandwidth(slow, [4]), [])
        self.assertEqual(outputs.check_bandwidth(slow.replace("0.000142", "0.000000"), [4]), ["no bandwidth at 4 bytes"])
        self.assertEqual(outputs.check_bandwidth("", [2]), ["no result line for 2 bytes (and 0 more)"])

    def test_latency(self):
        self.assertEqual(outputs.check_latency(LATENCY, [2]), [])
        self.assertEqual(outputs.check_latency(LATENCY.replace("1.31", "0.00"), [2]),
                         ["no typical latency at 2 bytes"])
        self.assertEqual(outputs.check_latency(LATENCY, [65536]), ["no result line for 65536 bytes (and 0 more)"])

    def test_a_clock_that_was_lost(self):
        lost = "Correlation coefficient r^2: 0.41 < 0.9\nCan't produce a report\n"
        self.assertTrue(outputs.clock_was_lost(lost))
        self.assertTrue(outputs.clock_was_lost(lost.splitlines()[0] + "\n" + LATENCY.replace("1.20", "inf")))
        self.assertFalse(outputs.clock_was_lost(BANDWIDTH))
        self.assertFalse(outputs.clock_was_lost("Conflicting CPU frequency values detected: 1 != 2\n" + BANDWIDTH))
        self.assertFalse(outputs.clock_was_lost(lost.splitlines()[0] + BANDWIDTH))

    def test_sizes_without_a_clock(self):
        lines = [LATENCY.splitlines()[-1].replace("2 ", f"{size} ", 1) for size in (4, 8, 16)]
        lost = " 2       25          inf   inf   inf   inf   -nan   inf   inf"
        why = "Correlation coefficient r^2: 0.41 < 0.9"
        self.assertEqual(outputs.check_latency("\n".join([why, lost, *lines]), [2, 4, 8, 16]), [])
        self.assertEqual(outputs.check_latency("\n".join([lost, *lines]), [2, 4]),
                         ["no result line for 2 bytes (and 0 more)"])
        self.assertEqual(outputs.check_latency("\n".join([why, lost, *lines[:2]]), [2, 4, 8]),
                         ["no result line for 2 bytes (and 0 more)"])

    def test_pingpong(self):
        self.assertEqual(outputs.check_pingpong(PINGPONG, 8192000), [])
        self.assertEqual(len(outputs.check_pingpong(PINGPONG, 4096)), 1)
        self.assertEqual(len(outputs.check_pingpong("local address: LID 0", 8192000)), 1)

    def test_trouble(self):
        self.assertEqual(outputs.trouble(BANDWIDTH + LATENCY + PINGPONG), [])
        self.assertEqual(outputs.trouble(" Completion with error at client\n Failed status 12: wr_id 0"),
                         ['it printed "Completion with error at client"', 'it printed "Failed status 12: wr_id 0"'])


if __name__ == "__main__":
    unittest.main()
