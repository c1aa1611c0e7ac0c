// What a switch is told: its buffer, its queues and its ports. The defaults are those of the published HPCC
// simulations: 32 MB, ECN between 100 and 400 KB per 25 Gbit/s with a probability up to 0.2, dynamic PFC thresholds of
// 1/8.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fabric/frame.h"
#include "uroce/address.h"
#include "uroce/time.h"
#include "wire/mac_control.h"

namespace uroce::fabric {

/// Marks with probability 0 up to kmin, rising linearly to pmax at kmax, and 1 above kmax. The queue that counts is
/// what remains behind the frame that leaves.
struct EcnConfig {
  bool enabled = true;
  uint32_t kmin_bytes = 100'000;
  uint32_t kmax_bytes = 400'000;
  double pmax = 0.2;
  /// kmin and kmax are for a port of this rate and grow with the port's; 0: they are for every port as they are.
  uint64_t per_bits_per_second = 25'000'000'000;
};

/// One of the eight priorities of a port.
struct PriorityConfig {
  /// Of frames that come in at this port. Lossless: their sender is paused before the buffer runs over. Lossy: frames
  /// beyond their egress queue's share are dropped.
  bool lossless = false;
  /// 0: strict, served before everything that is not, the highest number first. Otherwise the queue's share of what
  /// the strict ones leave (deficit round robin).
  uint32_t weight = 1;
  EcnConfig ecn;
};

using PriorityConfigs = std::array<PriorityConfig, kPriorities>;

/// Everything weighted alike, but 6 (CNPs have DSCP 48) and 7 strict; everything lossy.
PriorityConfigs default_priorities();

struct PortConfig {
  uint64_t bits_per_second = 100'000'000'000;  // of the cable: what pause quanta and ECN thresholds are measured in
  Duration cable_delay = microseconds(1);      // one way; what the automatic headroom is made for
  MacAddress mac;                              // source of pause frames; zero: made up from the port's number
  /// Frames for everybody and for unknown destinations go here. Where a topology has loops, only a tree of its ports
  /// may; such frames are not taken from a port without it either.
  bool flood = true;
  bool send_pfc = true;
  bool obey_pfc = true;
  /// Egress limit in bits per second on the wire, 0: none (then whoever polls decides how fast frames leave).
  uint64_t rate_cap = 0;
  uint32_t rate_cap_burst_bytes = 0;
  /// What each lossless priority may still take after the pause frame has been asked for; 0: computed from the rate,
  /// the delay and the longest frame. A neighbour that keeps sent frames in a ring (memif) needs the ring's bytes more.
  uint32_t headroom_bytes = 0;
  std::optional<PriorityConfigs> priorities;  // instead of the switch's
};

struct SwitchConfig {
  std::vector<PortConfig> ports;
  PriorityConfigs priorities = default_priorities();

  uint64_t buffer_bytes = 32'000'000;
  uint32_t max_frames = 1 << 20;  // queued at the same time; a guard against a buffer full of tiny frames
  uint32_t max_frame_bytes = 9216;
  /// Of every ingress priority that is lossless, before it takes from the shared part.
  uint32_t reserved_bytes = 4096;
  /// An ingress priority is paused when it holds more than this part of the shared buffer that is free.
  double pfc_alpha = 0.125;
  /// And started again when it holds this much less than the threshold of that moment.
  uint32_t xon_offset_bytes = 3072;
  /// An egress queue that is lossy may hold this part of the shared buffer that is free.
  double lossy_alpha = 1;
  uint16_t pause_quanta = kMaxPauseQuanta;  // in every pause frame; repeated at half of it while the pause lasts
  /// A queue that holds frames and was paused without a break for this long is taken for stuck: its frames are thrown
  /// away, and its pauses ignored for `watchdog_restore`. 0: never.
  Duration pfc_watchdog{};
  Duration watchdog_restore = milliseconds(200);

  bool learning = true;          // of source addresses; routes that were set win
  bool flood_unknown = true;     // false: frames for unknown destinations are dropped
  uint32_t learned_macs = 4096;  // room for; when a bucket is full the oldest makes room
  Duration mac_aging = milliseconds(300'000);
  uint32_t dwrr_quantum_bytes = 2048;  // per unit of weight and turn

  /// PCP to priority, for tagged frames, and DSCP to priority for untagged IP (default: DSCP / 8). Others: 0.
  std::array<uint8_t, 8> pcp_priority{0, 1, 2, 3, 4, 5, 6, 7};
  std::array<uint8_t, 64> dscp_priority = eighths();

  static constexpr std::array<uint8_t, 64> eighths() {
    std::array<uint8_t, 64> table{};
    for (unsigned i = 0; i < 64; i++) table[i] = static_cast<uint8_t>(i / 8);
    return table;
  }
  /// Makes these priorities lossless (bits) and the others lossy.
  void set_lossless(uint8_t priorities_mask) {
    for (unsigned i = 0; i < kPriorities; i++) priorities[i].lossless = (priorities_mask >> i & 1) != 0;
  }
};

/// What a lossless priority of this port needs: the frames that were under way, and those that leave while the pause
/// frame waits behind one, travels, and is acted upon.
uint64_t headroom_of(const SwitchConfig& config, const PortConfig& port);

/// The thresholds of a port of this rate.
uint64_t ecn_kmin(const EcnConfig& ecn, uint64_t bits_per_second);
uint64_t ecn_kmax(const EcnConfig& ecn, uint64_t bits_per_second);

/// Empty, or why no switch can be made of this (a buffer smaller than its headrooms, an alpha of 0, ...).
std::string check_config(const SwitchConfig& config);

}  // namespace uroce::fabric
