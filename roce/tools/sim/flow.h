// A flow: a number of bytes from one host to another, and its result.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/topology.h"
#include "uroce/time.h"

namespace uroce::sim {

enum class FlowKind : uint8_t { kWrite, kRead };  // posted by the sender of the bytes, or by their receiver

struct FlowSpec {
  Instant start;
  uint32_t from = 0;  // host numbers: the bytes go from one
  uint32_t to = 0;    // to the other
  uint64_t bytes = 0;
  FlowKind kind = FlowKind::kWrite;
  uint32_t owner = 0;               // which of several workloads it belongs to
  Instant stop = Instant::never();  // from then on it posts nothing more, and ends with what is under way

  /// The size of a flow that never ends by itself.
  static constexpr uint64_t kEndless = UINT64_MAX;
};

struct FlowRecord {
  uint64_t id = 0;
  FlowSpec spec;
  Instant end = Instant::never();  // when the last byte was acknowledged or read
  Duration ideal;                  // the time that it would take alone in the same network
  bool failed = false;

  bool finished() const { return end != Instant::never() && !failed; }
  /// True when it has a size, so that its time can be compared.
  bool sized() const { return spec.bytes != FlowSpec::kEndless; }
  double slowdown() const { return static_cast<double>((end - spec.start).ns) / static_cast<double>(ideal.ns); }
};

/// What decides how long a flow takes alone.
struct FlowShape {
  uint32_t mtu = 1024;
  uint32_t piece_bytes = 1 << 20;  // largest size of one work request
};

/// How long a flow takes alone over these cables: the time of all packets with their headers over each of them, and the
/// way back of the last ACK (or, for a READ, the way of the first request).
Duration ideal_time(const std::vector<TopologyLink>& path, const FlowShape& shape, FlowKind kind, uint64_t bytes);

/// Jain's index of fairness: 1 when all shares are equal, 1/n when one of n has everything; 1 for an empty list.
double jain_index(const std::vector<double>& shares);
/// The percentile of the values by nearest rank; 0 for an empty list. Sorts the values.
double percentile(std::vector<double>& values, double percent);

}  // namespace uroce::sim
