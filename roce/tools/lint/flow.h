// A flow is all packets from one address to a QP of another: what was seen of it, and what it belongs to.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lint/agreement.h"
#include "lint/channel.h"
#include "lint/finding.h"
#include "lint/packet.h"

namespace uroce::lint {

struct FlowEnds {
  IpAddress src;
  IpAddress dst;
  uint32_t dest_qp = 0;
  bool operator==(const FlowEnds&) const = default;
};

struct FlowEndsHash {
  size_t operator()(const FlowEnds& key) const;
};

struct FlowStatistics {
  uint64_t packets = 0;
  uint64_t payload_bytes = 0;
  std::vector<std::pair<uint8_t, uint64_t>> opcodes;  // ascending
  uint64_t ecn_capable = 0;
  uint64_t ecn_marked = 0;
  uint64_t cnps = 0;
  uint64_t faulty = 0;  // packets that a receiver drops: iCRC and header faults
  uint64_t first_frame = 0;
  uint64_t last_frame = 0;
  Psn first_psn{};
  Instant first_time{};
  Instant last_time{};
};

struct Flow {
  FlowEnds key;
  std::optional<Service> service;
  uint32_t partner = kNoFlow;        // the flow in the other direction, if the capture tells
  std::unique_ptr<Channel> channel;  // of connected services: the requests of this flow
  Agreement agreement;               // of connections by CM
  FlowStatistics statistics;

  struct PkeyVote {
    uint16_t pkey = 0;
    uint64_t packets = 0;
    uint64_t first_frame = 0;
  };
  std::vector<PkeyVote> pkeys;
  uint16_t udp_src_port = 0;
  bool port_changed = false;
  uint64_t marks_since_cnp = 0;
  SignatureTrail signature;
  unsigned mixed_in_a_row = 0;
  uint32_t partner_searches = 0;
  // For responses to a QP that sent no requests: how many of them answer the requests of another QP, and which.
  uint32_t strays = 0;
  uint32_t stray_of = kNoFlow;
};

using Flows = std::deque<Flow>;
/// The newest flow of each key.
using FlowIndex = std::unordered_map<FlowEnds, uint32_t, FlowEndsHash>;

struct PairKey {
  IpAddress src;
  IpAddress dst;
  bool operator==(const PairKey&) const = default;
};

struct PairKeyHash {
  size_t operator()(const PairKey& key) const;
};

}  // namespace uroce::lint
