#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "uroce/address.h"
#include "uroce/work_request.h"

namespace uroce::perf {

struct Options {
  bool listen = false;
  std::string peer;  // the address to which to connect
  WrOpcode opcode = WrOpcode::kRdmaWrite;
  std::string op_name = "write";
  uint32_t size = 65536;
  uint64_t iterations = 100000;  // over all queue pairs together
  uint32_t depth = 64;           // work requests under way, per queue pair
  uint32_t qps = 1;
  bool latency = false;  // one at a time, with percentiles
  std::vector<LocalAddress> addresses;
  std::string port;            // name or number of the DPDK port; "": the first
  uint16_t rdma_port = 18515;  // at which the two sides meet

  bool atomic() const { return opcode == WrOpcode::kFetchAdd || opcode == WrOpcode::kCompareSwap; }
};

/// Returns false, with the exit code in `code`, when the program is to end at once: after a mistake, or --help.
bool parse_options(int argc, char** argv, Options& options, int& code);

}  // namespace uroce::perf
