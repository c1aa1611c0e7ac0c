// A flow: so many bytes from one host to another, and what became of it.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/topology.h"
#include "uroce/time.h"

namespace uroce::sim {

enum class FlowKind : uint8_t { kWrite, kRead };  // who asks: the sender of the bytes, or their receiver

struct FlowSpec {
  Instant start;
  uint32_t from = 0;  // host numbers: the bytes go from one
  uint32_t to = 0;    // to the other
  uint64_t bytes = 0;
  FlowKind kind = FlowKind::kWrite;
  uint32_t owner = 0;               // which of several workloads
  Instant stop = Instant::never();  // asks for nothing more then, and ends with what is under way

  /// So many bytes that no run is long enough.
  static constexpr uint64_t kEndless = UINT64_MAX;
};

struct FlowRecord {
  uint64_t id = 0;
  FlowSpec spec;
  Instant end = Instant::never();  // the last byte was acknowledged, or read
  Duration ideal;                  // alone in the same network
  bool failed = false;

  bool finished() const { return end != Instant::never() && !failed; }
  /// It had a size, so its time can be compared.
  bool sized() const { return spec.bytes != FlowSpec::kEndless; }
  double slowdown() const { return static_cast<double>((end - spec.start).ns) / static_cast<double>(ideal.ns); }
};

/// What decides how long a flow takes alone.
struct FlowShape {
  uint32_t mtu = 1024;
  uint32_t piece_bytes = 1 << 20;  // of one work request
};

/// How long it takes alone over these cables: all packets with their headers over each of them, and the way back of the
/// last ACK (or, for a READ, the way of the first request).
Duration ideal_time(const std::vector<TopologyLink>& path, const FlowShape& shape, FlowKind kind, uint64_t bytes);

/// Jain's index of fairness: 1 when all are alike, 1/n when one has everything. 1 for nothing.
double jain_index(const std::vector<double>& shares);
/// The value below which that part of the values lies, the nearest rank; sorts them. 0 for none.
double percentile(std::vector<double>& values, double percent);

}  // namespace uroce::sim
