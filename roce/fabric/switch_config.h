// The configuration of a switch: its buffer, its queues and its ports. The defaults are those of the published HPCC
// simulations: 32 MB, ECN between 100 and 400 KB per 25 Gbit/s with a probability up to 0.2, dynamic PFC thresholds of
// 1/8.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fabric/frame.h"
#include "packet/mac_control.h"
#include "uroce/address.h"
#include "uroce/time.h"

namespace uroce::fabric {

/// Marks with probability 0 up to kmin, rising linearly to pmax at kmax, and 1 above kmax. The length that counts is
/// that of the queue behind the frame that leaves.
struct EcnConfig {
  bool enabled = true;
  uint32_t kmin_bytes = 100'000;
  uint32_t kmax_bytes = 400'000;
  double pmax = 0.2;
  /// kmin and kmax are for a port of this rate, and are scaled by the rate of the port. With 0 they are not scaled.
  uint64_t per_bits_per_second = 25'000'000'000;
};

/// One of the eight priorities of a port.
struct PriorityConfig {
  /// For frames that come in at this port. If lossless, their sender is paused before the buffer is full. If lossy,
  /// frames beyond the share of their egress queue are dropped.
  bool lossless = false;
  /// 0 means strict: served before all queues that are not strict, the highest priority first. Otherwise it is the
  /// queue's share of the rate that the strict ones leave (deficit round robin).
  uint32_t weight = 1;
  EcnConfig ecn;
};

using PriorityConfigs = std::array<PriorityConfig, kPriorities>;

/// All priorities are lossy and have the same weight, except 6 (that of CNPs, DSCP 48) and 7, which are strict.
PriorityConfigs default_priorities();

struct PortConfig {
  uint64_t bits_per_second = 100'000'000'000;  // of the cable; pause quanta and ECN thresholds depend on it
  Duration cable_delay = microseconds(1);      // one way; the automatic headroom is made for it
  MacAddress mac;                              // source of pause frames; zero: one made from the port's number
  /// Whether broadcasts and frames for unknown destinations leave here. In a topology with loops only the ports of a
  /// tree may have this; from a port without it such frames are not accepted either.
  bool flood = true;
  bool send_pfc = true;
  bool obey_pfc = true;
  /// Egress limit in bits per second on the wire. 0: none; then the caller that polls decides how fast frames leave.
  uint64_t rate_cap = 0;
  uint32_t rate_cap_burst_bytes = 0;
  /// How much each lossless priority may still take after the switch decided to pause it; 0: computed from the rate,
  /// the delay and the longest frame. For a neighbour that keeps sent frames in a ring (memif), the bytes of that ring
  /// have to be added.
  uint32_t headroom_bytes = 0;
  std::optional<PriorityConfigs> priorities;  // instead of the switch's
};

struct SwitchConfig {
  std::vector<PortConfig> ports;
  PriorityConfigs priorities = default_priorities();

  uint64_t buffer_bytes = 32'000'000;
  uint32_t max_frames = 1 << 20;  // queued at the same time; a guard against a buffer full of tiny frames
  uint32_t max_frame_bytes = 9216;
  /// The reserve of every ingress priority that is lossless, which is used before the shared part.
  uint32_t reserved_bytes = 4096;
  /// An ingress priority is paused when it holds more than this fraction of what is free of the shared buffer.
  double pfc_alpha = 0.125;
  /// It may send again when it holds this much less than the threshold of that moment.
  uint32_t xon_offset_bytes = 3072;
  /// A lossy egress queue may hold this fraction of what is free of the shared buffer.
  double lossy_alpha = 1;
  uint16_t pause_quanta = kMaxPauseQuanta;  // in every pause frame, which is repeated after half of it
  /// A queue that holds frames and was paused without a break for this long counts as stuck: its frames are dropped,
  /// and pauses of it are ignored for `watchdog_restore`. 0: never.
  Duration pfc_watchdog{};
  Duration watchdog_restore = milliseconds(200);

  bool learning = true;          // of source addresses; routes that were set have precedence
  bool flood_unknown = true;     // false: frames for unknown destinations are dropped
  uint32_t learned_macs = 4096;  // room for so many; in a full bucket the oldest entry is replaced
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

/// The headroom that a lossless priority of this port needs: for the frames that are under way, and for those that the
/// neighbour still sends while the pause frame waits behind another frame, travels, and is acted upon.
uint64_t headroom_of(const SwitchConfig& config, const PortConfig& port);

/// The thresholds in bytes for a port of this rate.
uint64_t ecn_kmin(const EcnConfig& ecn, uint64_t bits_per_second);
uint64_t ecn_kmax(const EcnConfig& ecn, uint64_t bits_per_second);

/// Returns an empty string, or why no switch can be made of this (for example a buffer smaller than its headrooms, or
/// an alpha of 0).
std::string check_config(const SwitchConfig& config);

}  // namespace uroce::fabric
