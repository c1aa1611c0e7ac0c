#!/usr/bin/env python3
"""Sends to an endpoint what its neighbours and its enemies would send, with Scapy, and checks what comes back.

    stranger.py INTERFACE MAC IPV4 IPV6 VLAN-IPV4 VLAN SEED

Runs in the network namespace at the other end of the wire. Prints one JSON object: how many frames of each kind were
sent, for the caller to compare with the endpoint's counters. Exits 1 with a message when an answer is missing or wrong.
"""

import json
import random
import sys

from scapy.all import (ARP, ICMP, IP, UDP, Dot1Q, Ether, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6ND_NA, ICMPv6ND_NS,
                       ICMPv6NDOptSrcLLAddr, IPv6, Raw, conf, get_if_hwaddr, in6_getnsma, in6_getnsmac, inet_ntop,
                       inet_pton, sendp, srp1)
from scapy.contrib.roce import BTH

import socket

PORT = 4791


class Stranger:
    def __init__(self, interface, mac, ipv4, ipv6, vlan_ipv4, vlan, seed):
        self.interface, self.mac, self.ipv4, self.ipv6 = interface, mac, ipv4, ipv6
        self.vlan_ipv4, self.vlan = vlan_ipv4, int(vlan)
        self.own_mac = get_if_hwaddr(interface)
        self.own_ipv4, self.own_ipv6 = "10.77.0.200", "fd77::200"
        self.random = random.Random(int(seed))
        self.sent = {}

    def ask(self, what, frame):
        answer = srp1(frame, iface=self.interface, timeout=3, retry=1, verbose=False)
        if answer is None:
            sys.exit(f"{what}: no answer")
        return answer

    def expect(self, what, wrong):
        if wrong:
            sys.exit(f"{what}: {wrong}")

    def arp(self):
        for address, tag in ((self.ipv4, None), (self.vlan_ipv4, self.vlan)):
            frame = Ether(src=self.own_mac, dst="ff:ff:ff:ff:ff:ff")
            if tag is not None:
                frame /= Dot1Q(vlan=tag)
            answer = self.ask(f"ARP for {address}", frame / ARP(hwsrc=self.own_mac, psrc=self.own_ipv4, pdst=address))
            self.expect("ARP", ARP not in answer or answer[ARP].op != 2 or answer[ARP].psrc != address and "another address")
            self.expect("ARP", answer[ARP].hwsrc != self.mac and f"MAC {answer[ARP].hwsrc}, not {self.mac}")
            self.expect("ARP", (tag is not None) != (Dot1Q in answer) and "the VLAN tag is wrong")

    def neighbour_discovery(self):
        group = in6_getnsma(inet_pton(socket.AF_INET6, self.ipv6))
        answer = self.ask("neighbour solicitation", Ether(src=self.own_mac, dst=in6_getnsmac(group)) /
                          IPv6(src=self.own_ipv6, dst=inet_ntop(socket.AF_INET6, group), hlim=255) /
                          ICMPv6ND_NS(tgt=self.ipv6) / ICMPv6NDOptSrcLLAddr(lladdr=self.own_mac))
        self.expect("neighbour advertisement", ICMPv6ND_NA not in answer or answer[ICMPv6ND_NA].tgt != self.ipv6)
        self.expect("neighbour advertisement", answer.src != self.mac and f"from {answer.src}, not {self.mac}")

    def ping(self):
        data = bytes(range(56))
        answer = self.ask("ping", Ether(src=self.own_mac, dst=self.mac) / IP(src=self.own_ipv4, dst=self.ipv4) /
                          ICMP(id=7, seq=9) / Raw(data))
        self.expect("ping", (ICMP not in answer or answer[ICMP].type != 0 or answer[ICMP].seq != 9 or
                             bytes(answer[ICMP].payload)[:56] != data) and "a wrong echo reply")
        answer = self.ask("ping6", Ether(src=self.own_mac, dst=self.mac) / IPv6(src=self.own_ipv6, dst=self.ipv6) /
                          ICMPv6EchoRequest(id=7, seq=9, data=data))
        self.expect("ping6", (ICMPv6EchoReply not in answer or answer[ICMPv6EchoReply].data != data) and
                    "a wrong echo reply")

    def send(self, kind, frames):
        sendp(frames, iface=self.interface, verbose=False)
        self.sent[kind] = len(frames)

    def attack(self):
        ip = Ether(src=self.own_mac, dst=self.mac) / IP(src=self.own_ipv4, dst=self.ipv4)
        udp = ip / UDP(sport=49152, dport=PORT, chksum=0)
        self.send("garbage", [udp / Raw(self.random.randbytes(self.random.randrange(0, 900))) for _ in range(500)])
        no_qp = [udp / BTH(opcode=self.random.choice([4, 0, 6, 10]), dqpn=self.random.randrange(2, 0xFFFFFF), psn=n) /
                 Raw(self.random.randbytes(64)) for n in range(100)]
        self.send("no_qp", no_qp)
        damaged = []
        for frame in no_qp:
            octets = bytearray(bytes(frame))
            octets[-5] ^= 1 << self.random.randrange(8)  # the last byte before the iCRC
            damaged.append(Ether(bytes(octets)))
        self.send("damaged", damaged)
        self.send("elsewhere", [Ether(src=self.own_mac, dst=self.mac) / IP(src=self.own_ipv4, dst="10.77.0.77") /
                                UDP(sport=49152, dport=PORT, chksum=0) / BTH(opcode=4, dqpn=77, psn=n) / Raw(b"12345678")
                                for n in range(50)])


def main():
    conf.verb = 0
    stranger = Stranger(*sys.argv[1:])
    stranger.arp()
    stranger.neighbour_discovery()
    stranger.ping()
    stranger.attack()
    stranger.arp()  # the endpoint still answers, and has lost nothing
    print(json.dumps(stranger.sent))


if __name__ == "__main__":
    main()
