#include "sim/flow.h"

#include <algorithm>

namespace uroce::sim {

namespace {

// Bytes on the wire beside the payload: preamble, check sequence and gap; Ethernet, IPv4, UDP, BTH, iCRC.
constexpr uint64_t kPacketOverhead = 24 + 14 + 20 + 8 + 12 + 4;
constexpr uint64_t kRethBytes = 16;
constexpr uint64_t kAethBytes = 4;

double wire_ns(uint64_t bytes, const TopologyLink& link) {
  return static_cast<double>(bytes) * 8e9 / static_cast<double>(link.bits_per_second);
}

}  // namespace

/// Switches take a frame whole before they send it on. Three instants are followed over the cables: when the first
/// packet is out, the last but one, and the last one, which may be short and then waits behind its predecessor
/// everywhere.
Duration ideal_time(const std::vector<TopologyLink>& path, const FlowShape& shape, FlowKind kind, uint64_t bytes) {
  if (path.empty()) return {};
  const uint64_t packets = std::max<uint64_t>((bytes + shape.mtu - 1) / shape.mtu, 1);
  const uint64_t pieces = std::max<uint64_t>((bytes + shape.piece_bytes - 1) / shape.piece_bytes, 1);
  const uint64_t header = kind == FlowKind::kWrite ? kRethBytes : 2 * kAethBytes;
  const uint64_t padded = (bytes + 3) / 4 * 4;
  const uint64_t total = padded + packets * kPacketOverhead + pieces * header;
  const uint64_t last = padded - (packets - 1) * shape.mtu + kPacketOverhead + (packets == 1 ? header : 0);
  const uint64_t full = packets == 1 ? 0 : shape.mtu + kPacketOverhead;
  const uint64_t back = kPacketOverhead + (kind == FlowKind::kWrite ? kAethBytes : kRethBytes);
  double first_out = 0;
  double before_out = 0;
  double last_out = 0;
  double other_way = 0;
  for (const TopologyLink& link : path) {
    before_out = std::max(before_out + wire_ns(full, link), first_out + wire_ns(total - last, link));
    first_out += wire_ns(full, link);
    last_out = std::max(last_out, before_out) + wire_ns(last, link);
    other_way += 2 * static_cast<double>(link.delay.ns) + wire_ns(back, link);
  }
  return nanoseconds(static_cast<int64_t>(last_out + other_way));
}

double jain_index(const std::vector<double>& shares) {
  double sum = 0;
  double squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  return squares == 0 ? 1 : sum * sum / (static_cast<double>(shares.size()) * squares);
}

double percentile(std::vector<double>& values, double percent) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double rank = percent / 100 * static_cast<double>(values.size());
  auto index = static_cast<size_t>(rank);
  if (static_cast<double>(index) < rank) index++;
  return values[std::clamp<size_t>(index, 1, values.size()) - 1];
}

}  // namespace uroce::sim
