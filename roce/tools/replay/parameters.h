// Values that a capture may not show, read from a small file of `name = value` lines; `#` begins a comment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace uroce::replay {

struct RegionParameter {
  uint32_t rkey = 0;
  uint64_t va = 0;
  uint64_t length = 0;
  uint32_t access = 0;  // Access
};

struct Parameters {
  std::optional<uint32_t> mtu;
  std::optional<uint32_t> psn;  // of the first request
  std::optional<uint32_t> msn;  // before the first request: for captures that begin in the middle
  std::optional<uint32_t> rnr_timer;
  std::optional<uint32_t> read_depth;
  std::optional<uint32_t> access;        // of the responder's QP
  std::vector<RegionParameter> regions;  // replace the learned ones with the same keys
};

/// Fills `out`. Returns what is wrong, with the number of the line, or an empty string.
std::string parse_parameters(std::string_view text, Parameters& out);

}  // namespace uroce::replay
