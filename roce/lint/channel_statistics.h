// What is counted of one direction of a connected QP pair; packets, unless it says otherwise.
#pragma once

#include <array>
#include <cstdint>

namespace uroce::lint {

struct ChannelStatistics {
  uint64_t requests = 0;
  uint64_t retransmitted = 0;  // packets seen before
  uint64_t late = 0;           // packets that filled a gap
  uint64_t missing = 0;        // PSNs jumped over
  uint64_t acks = 0;
  uint64_t sacks = 0;
  std::array<uint64_t, 5> naks{};  // by code
  uint64_t rnr_naks = 0;
  // Times that the requester went back, by what made it.
  uint64_t back_for_nak = 0;
  uint64_t back_for_rnr = 0;
  uint64_t back_for_read = 0;  // missing READ responses
  uint64_t back_for_sack = 0;  // packets missing in front of what a SACK said is held
  uint64_t timeouts = 0;       // nothing that was seen
  int64_t timeout_min_ns = 0;  // the silence before
  int64_t timeout_max_ns = 0;
};

}  // namespace uroce::lint
