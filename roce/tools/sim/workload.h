// What the hosts of a network do: flows, one after the other.
//
// A workload is asked for its next flow as virtual time goes on, and is told when one has ended. Open workloads
// (Poisson, traces) ignore that, closed ones (storage) begin the next flow then. Every workload draws from a random
// stream of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/flow.h"
#include "sim/network.h"

namespace uroce::sim {

class Workload {
 public:
  virtual ~Workload() = default;
  /// When the next flow begins; Instant::never() when none is known now.
  virtual Instant next_start() const = 0;
  /// Takes that flow. Its start is next_start().
  virtual FlowSpec take() = 0;
  virtual void on_flow_end(const FlowRecord& /*flow*/, Instant /*now*/) {}
};

struct WorkloadContext {
  Network* network = nullptr;
  Instant start;      // of the run
  Duration duration;  // open workloads begin nothing later
  uint64_t seed = 1;
  /// Reads a file that a specification names. Returns false when it cannot be read.
  std::function<bool(const std::string& path, std::string& text)> read_file;
};

/// `spec` is NAME[:PARAMETER...]; see `workload_help`. Returns nullptr and sets `error` when it is wrong.
std::unique_ptr<Workload> make_workload(std::string_view spec, const WorkloadContext& context, std::string& error);
std::string workload_help();

}  // namespace uroce::sim
