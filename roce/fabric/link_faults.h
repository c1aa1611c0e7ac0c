// What goes wrong between one program and its network: the text that `uroce run --faults` takes.
//
// Statements are separated as those of `parse_impairments`, whose words all mean the same here; beside them stand
//
//     in: loss 1%                  of what comes in; `out:` is what the program sends, as is everything before the
//     first rate 100M                    what is sent leaves at so many bits a second, on the cable queue 256K bytes
//     that wait for the rate at most, the others are dropped ecn kmin=20K,kmax=100K,pmax=0.1     marks by the bytes
//     that wait; `ecn on`: by thresholds that grow with the rate frames 4096                  in each direction wait at
//     most, in memory that is set aside at the beginning seed 7                       other frames are hit
//
// `in:` and `out:` stand before the first statement that they are for, and hold until the other one comes. What is sent
// passes the queue first, then the faults.
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
  uint64_t bits_per_second = 0;      // of what is sent; 0: no limit
  uint64_t queue_bytes = 1'000'000;  // in front of the limit
  std::optional<EcnConfig> ecn;      // of that queue
  uint32_t frames = 4096;            // that the queue holds, and that are delayed in either direction
  std::optional<uint64_t> seed;      // nothing: one is drawn

  /// True when every frame would pass.
  bool empty() const { return out.empty() && in.empty() && bits_per_second == 0; }
};

/// Replaces `faults`. Returns an empty string, or what is wrong; then `faults` stays as it was.
std::string parse_link_faults(std::string_view text, LinkFaults& faults);
/// One line of text from which parse_link_faults makes the same.
std::string to_text(const LinkFaults& faults);

}  // namespace uroce::fabric
