// What a switch counts. The counters account for every frame: the frames received plus the copies made by flooding
// equal those sent (without the switch's own pause frames), plus the pause frames received, plus the drops (each frame
// counts in exactly one), plus those that wait.
#pragma once

#include <array>
#include <cstdint>

#include "packet/mac_control.h"

namespace uroce::fabric {

enum class Drop : uint8_t {
  kRunt,           // shorter than an Ethernet header
  kTooLong,        // longer than max_frame_bytes
  kMacControl,     // a MAC control frame that is not a pause frame
  kReservedMac,    // to 01:80:c2:00:00:0x (LLDP, STP), which a bridge never forwards
  kPortDown,       // came from or was to go to a port that is down, or waited there when it went down
  kNoRoute,        // unknown destination, and flooding is off or leads nowhere
  kSamePort,       // its destination is the port from which it came
  kFloodBlocked,   // broadcast or of unknown destination, from a port that is not in the flooding tree
  kHeadroom,       // lossless, and beyond the headroom: the neighbour did not obey, or the headroom is too small
  kEgressShare,    // lossy, and the queue has used its share of the buffer
  kBufferFull,     // lossy, and the shared buffer is full
  kNoDescriptor,   // max_frames are queued
  kNoFrameMemory,  // the pool had no frame for a copy
  kWatchdog,       // its queue was stuck behind a pause that did not end
};
inline constexpr unsigned kDropCount = static_cast<unsigned>(Drop::kWatchdog) + 1;

/// The name in counters and tables: "runt", "headroom" and so on.
const char* drop_name(Drop drop);

/// The counters of one port. Drops are counted where the frame came in, except kWatchdog, and kPortDown of frames that
/// waited: these are counted where they waited.
struct SwitchPortCounters {
  uint64_t rx_frames = 0;
  uint64_t rx_bytes = 0;
  uint64_t tx_frames = 0;  // including pause frames
  uint64_t tx_bytes = 0;
  std::array<uint64_t, kPriorities> tx_priority_frames{};
  std::array<uint64_t, kPriorities> tx_priority_bytes{};
  std::array<uint64_t, kDropCount> drops{};
  uint64_t flooded = 0;                           // broadcasts and frames for unknown destinations that came in here
  uint64_t flood_copies = 0;                      // made of them, beside the originals
  uint64_t ecn_marked = 0;                        // when they left here
  uint64_t ecn_not_capable = 0;                   // would have been marked, but their sender does not know ECN
  std::array<uint64_t, kPriorities> xoff_sent{};  // times that a priority was paused, without the repetitions
  std::array<uint64_t, kPriorities> xon_sent{};
  uint64_t pause_frames_sent = 0;
  uint64_t pause_frames_received = 0;
  std::array<uint64_t, kPriorities> pauses_received{};  // those with quanta that are not 0
  std::array<uint64_t, kPriorities> resumes_received{};
  std::array<uint64_t, kPriorities> paused_ns{};  // until the last change
  uint64_t pause_frames_unsent = 0;               // the pool had no memory for one, which is tried again
  std::array<uint64_t, kPriorities> watchdog_fired{};
  std::array<uint64_t, kPriorities> max_queue_bytes{};

  uint64_t dropped() const {
    uint64_t sum = 0;
    for (const uint64_t n : drops) sum += n;
    return sum;
  }
};

}  // namespace uroce::fabric
