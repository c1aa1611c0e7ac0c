// Makes a packet of a captured frame, leniently: where a receiver would drop the frame, the fault is reported instead.
//
// packet/packet.h stops at the first fault, as a receiver does. Here each fault becomes an issue with its rule, and the
// packet is still judged as far as a receiver would use it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lint/rules.h"
#include "packet/packet.h"
#include "pcap/frame.h"

namespace uroce::lint {

struct Packet {
  PacketView view;  // `l2` is the captured frame's first byte, whatever the link type is
  uint64_t frame = 0;
  Instant time{};
  bool has_time = false;
  bool whole = true;           // false: the capture cut the frame, so payload and iCRC must not be read
  bool icrc_wrong = false;     // every receiver drops it
  bool has_addresses = false;  // src_ip and dst_ip are set
  bool has_bth = false;        // bth is set
  pcap::FrameDirection direction = pcap::FrameDirection::kUnknown;

  uint8_t opcode() const { return view.bth.opcode; }
  Psn psn() const { return view.bth.psn; }
  const OpcodeInfo& info() const { return *view.info; }
};

struct Issue {
  Rule rule;
  std::string text;
};

enum class Dissection : uint8_t {
  kOther,   // not RoCEv2
  kCut,     // RoCEv2, but the capture lacks some of its headers
  kFaulty,  // RoCEv2 that a receiver drops
  kPacket,
};

/// Appends what is wrong to `issues`.
Dissection dissect(const pcap::Frame& frame, Packet& out, std::vector<Issue>& issues);

/// Checks the rules for the headers of one packet that `dissect` took as a packet.
void check_headers(const Packet& packet, std::vector<Issue>& issues);

}  // namespace uroce::lint
