// What goes wrong between one program and its network: the text that `uroce run --faults` takes.
//
// Statements are separated as those of `parse_impairments`, whose words all mean the same here; there are also:
//
//     in: loss 1%   for received frames; `out:`, like everything before the first of the two, is for sent ones
//     rate 100M     sent frames leave at so many bits a second, on the cable
//     queue 256K    bytes that wait for the rate at most; further frames are dropped
//     ecn kmin=20K,kmax=100K,pmax=0.1   marks by the bytes that wait; `ecn on`: by thresholds that grow with the rate
//     frames 4096   as many wait at most in each direction, in memory that is set aside at the beginning
//     seed 7        other frames are hit
//
// `in:` and `out:` hold until the other one comes. Sent frames pass the queue first, then the faults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "fabric/impairments.h"
#include "fabric/switch_config.h"

namespace uroce::fabric {

struct LinkFaults {
  static constexpr uint32_t kMostFrames = 1 << 16;

  ImpairmentConfig out;  // what the program sends
  ImpairmentConfig in;
  uint64_t bits_per_second = 0;      // of sent frames; 0: no limit
  uint64_t queue_bytes = 1'000'000;  // in front of the limit
  std::optional<EcnConfig> ecn;      // of that queue
  uint32_t frames = 4096;            // most frames in the queue, and delayed in either direction
  std::optional<uint64_t> seed;      // nothing: one is drawn

  /// True when every frame would pass.
  bool empty() const { return out.empty() && in.empty() && bits_per_second == 0; }
};

/// Replaces `faults`. Returns an empty string, or what is wrong; then `faults` stays as it was.
std::string parse_link_faults(std::string_view text, LinkFaults& faults);
/// One line of text from which parse_link_faults makes the same faults.
std::string to_text(const LinkFaults& faults);

}  // namespace uroce::fabric
