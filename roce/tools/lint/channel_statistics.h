// What is counted for one direction of a connected QP pair: packets, unless a comment says otherwise.
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
  // How often the requester went back, by the reason.
  uint64_t back_for_nak = 0;
  uint64_t back_for_rnr = 0;
  uint64_t back_for_read = 0;  // missing READ responses
  uint64_t back_for_sack = 0;  // packets missing before what a SACK said is held
  uint64_t timeouts = 0;       // for no reason that was seen
  int64_t timeout_min_ns = 0;  // the silence before, the shortest and the longest
  int64_t timeout_max_ns = 0;
};

}  // namespace uroce::lint
