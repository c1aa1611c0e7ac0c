// What the hosts of a network do: flows, one after the other.
//
// A workload is asked for its next flow by virtual time, and told when one has ended: open ones (Poisson, traces) do
// not care, closed ones (storage) begin the next one then. Every one draws from a random stream of its own.
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
  /// When the next flow begins; Instant::never(): none that is known now.
  virtual Instant next_start() const = 0;
  /// That flow. Its start is next_start().
  virtual FlowSpec take() = 0;
  virtual void on_flow_end(const FlowRecord& /*flow*/, Instant /*now*/) {}
};

struct WorkloadContext {
  Network* network = nullptr;
  Instant start;      // of the run
  Duration duration;  // open workloads begin nothing later
  uint64_t seed = 1;
  /// Reads a file that a specification names. False: it cannot be read.
  std::function<bool(const std::string& path, std::string& text)> read_file;
};

/// `spec` is NAME[:PARAMETER...]; see `workload_help`. nullptr, and `error`, when it is none.
std::unique_ptr<Workload> make_workload(std::string_view spec, const WorkloadContext& context, std::string& error);
std::string workload_help();

}  // namespace uroce::sim
