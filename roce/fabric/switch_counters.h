// What a switch counts. No frame gets lost between the counters: those received and the copies made by flooding are
// those sent (without the switch's own pause frames), the pause frames received, those in exactly one of the drops, and
// those that wait.
#pragma once

#include <array>
#include <cstdint>

#include "wire/mac_control.h"

namespace uroce::fabric {

enum class Drop : uint8_t {
  kRunt,           // shorter than an Ethernet header
  kTooLong,        // longer than max_frame_bytes
  kMacControl,     // a MAC control frame that is not a pause frame
  kReservedMac,    // to 01:80:c2:00:00:0x (LLDP, STP): never forwarded by a bridge
  kPortDown,       // came from, or was to go to, a port that is down; or waited there when it went down
  kNoRoute,        // unknown destination, and flooding is off or leads nowhere
  kSamePort,       // its destination is where it came from
  kFloodBlocked,   // for everybody, from a port that is not in the flooding tree
  kHeadroom,       // lossless, and beyond the headroom: the neighbour did not obey, or the headroom is too small
  kEgressShare,    // lossy, and the queue has its share of the buffer
  kBufferFull,     // lossy, and the shared buffer is full
  kNoDescriptor,   // max_frames are queued
  kNoFrameMemory,  // the pool had none for a copy
  kWatchdog,       // its queue was stuck behind a pause that did not end
};
inline constexpr unsigned kDropCount = static_cast<unsigned>(Drop::kWatchdog) + 1;

/// "runt", "headroom", ...: as counters and tables call it.
const char* drop_name(Drop drop);

/// Of one port. Drops are counted where the frame came in, except kPortDown of frames that waited and kWatchdog: where
/// they waited.
struct PortCounters {
  uint64_t rx_frames = 0;
  uint64_t rx_bytes = 0;
  uint64_t tx_frames = 0;  // with pause frames
  uint64_t tx_bytes = 0;
  std::array<uint64_t, kPriorities> tx_priority_frames{};
  std::array<uint64_t, kPriorities> tx_priority_bytes{};
  std::array<uint64_t, kDropCount> drops{};
  uint64_t flooded = 0;          // frames that came in here for everybody, or for an unknown destination
  uint64_t flood_copies = 0;     // made of them, beside the originals
  uint64_t ecn_marked = 0;       // on leaving here
  uint64_t ecn_not_capable = 0;  // would have been marked, but their sender does not know ECN
  std::array<uint64_t, kPriorities> xoff_sent{};  // times that a priority was paused, without the repetitions
  std::array<uint64_t, kPriorities> xon_sent{};
  uint64_t pause_frames_sent = 0;
  uint64_t pause_frames_received = 0;
  std::array<uint64_t, kPriorities> pauses_received{};  // with quanta
  std::array<uint64_t, kPriorities> resumes_received{};
  std::array<uint64_t, kPriorities> paused_ns{};  // until the last change
  uint64_t pause_frames_unsent = 0;               // the pool had no memory for one: tried again at the next chance
  std::array<uint64_t, kPriorities> watchdog_fired{};
  std::array<uint64_t, kPriorities> max_queue_bytes{};

  uint64_t dropped() const {
    uint64_t sum = 0;
    for (const uint64_t n : drops) sum += n;
    return sum;
  }
};

}  // namespace uroce::fabric
