// Settings of congestion control. All QPs of an engine share one set.
//
// Where users of RDMA NICs know a setting (from mlx5's ecn settings), it has the same name and unit here; the unit
// stands in the comment. `parameters.h` sets them by name.
#pragma once

#include <cstdint>

#include "uroce/time.h"

namespace uroce {

enum class CongestionAlgorithm : uint8_t { kNone, kDcqcn, kTimely, kSwift };

/// The reaction point of DCQCN. The values here are those of the paper (Zhu et al., SIGCOMM 2015); where the paper
/// gives none, the comment says where the value is from.
struct DcqcnConfig {
  uint32_t dce_tcp_g = 1020;            // of 1024: the part of alpha kept per update; g = 1 - 1020/1024 = 1/256
  uint32_t dce_tcp_rtt = 55;            // us between updates of alpha
  uint32_t initial_alpha_value = 1024;  // of 1024
  bool alpha_by_interval = false;       // false: a CNP raises alpha at once (the paper); true: an interval with a CNP
                                        // in it does, at its end (as NICs and their simulators do)
  uint32_t rpg_gd = 11;                 // a cut takes alpha * 1024 / 2^rpg_gd of the rate: 11 takes half of alpha
  uint32_t rpg_min_dec_fac = 50;        // per cent of the rate that a cut leaves at least
  uint32_t rate_reduce_monitor_period = 50;  // us between two cuts, at least
  bool cut_by_interval = false;  // false: a CNP cuts at once, unless a cut was shortly before (the paper); true: only
                                 // when a period ends that had a CNP in it (as HPCC's simulations do)
  uint32_t rpg_time_reset = 55;  // us between increases by the timer
  uint32_t rpg_byte_reset = 10'000'000;   // bytes sent between increases by the byte counter; 0: no byte counter
  uint32_t rpg_threshold = 5;             // increases by timer or bytes that only recover
  uint32_t rpg_ai_rate = 40;              // Mbit/s
  uint32_t rpg_hai_rate = 200;            // Mbit/s (ns3-rdma; the paper gives none)
  uint32_t rpg_min_rate = 10;             // Mbit/s; for every algorithm
  uint32_t rpg_max_rate = 0;              // Mbit/s; for every algorithm; 0: the port's speed
  uint32_t rate_to_set_on_first_cnp = 0;  // Mbit/s; 0: cut from the highest rate
  bool clamp_tgt_rate = true;  // each cut makes the current rate the target of recovery (the paper); false: only
                               // one that follows an increase does
  bool clamp_tgt_rate_after_time_inc = true;  // with clamp_tgt_rate off: an increase by the timer counts too
};

/// TIMELY (Mittal et al., SIGCOMM 2015). The defaults are values published for it.
struct TimelyConfig {
  double ewma = 0.875;     // weight of the newest difference
  double beta = 0.8;       // of multiplicative decrease
  uint32_t t_low = 50;     // us: below, always increase
  uint32_t t_high = 500;   // us: above, always decrease
  uint32_t min_rtt = 20;   // us: the unit of the gradient
  uint32_t ai_rate = 10;   // Mbit/s
  uint32_t hai_rate = 50;  // Mbit/s, from the hai_threshold-th increase in a row
  uint32_t hai_threshold = 5;
  /// Between t_low and t_high, TIMELY alone has no single point of balance, so flows keep their rates. When patched
  /// (Zhu et al., "ECN or Delay", CoNEXT 2016), flows are drawn to t_low by the delay itself, and so to equal shares.
  bool patched = false;
  double patched_beta = 0.008;
  bool hai_below_t_low = false;  // increases below t_low count for hai too (the HPCC authors' simulator)
};

/// A target delay, in the manner of Swift (Kumar et al., SIGCOMM 2020).
struct SwiftConfig {
  uint32_t target = 25;      // us
  double ai = 1.0;           // packets per round trip
  double beta = 0.8;         // of multiplicative decrease
  double max_mdf = 0.5;      // a decrease takes at most this share of the window
  uint32_t fs_range = 50;    // us that flow scaling adds to the target at most; 0: no flow scaling
  double fs_min_cwnd = 0.1;  // packets: windows up to this get all of fs_range
  double fs_max_cwnd = 100;  // packets: windows from this on get nothing
};

/// The notification point: the receiver of packets marked with ECN, which answers them with CNPs.
struct NotificationConfig {
  uint32_t min_time_between_cnps = 50;  // us, per QP
  uint32_t cnp_dscp = 48;
  uint32_t cnp_802p_prio = 6;  // used where the path has a VLAN tag
};

struct CongestionConfig {
  CongestionAlgorithm algorithm = CongestionAlgorithm::kNone;
  uint64_t link_bits_per_second = 0;  // the port's; 0: unknown
  DcqcnConfig dcqcn;
  TimelyConfig timely;
  SwiftConfig swift;
  NotificationConfig notification;
  bool has_win = false;          // allows no more in flight than the rate times base_rtt
  bool var_win = true;           // true: times the current rate; false: times the highest
  Duration base_rtt{0};          // 0: the shortest that was measured
  uint32_t burst_bytes = 16384;  // bytes that a paced QP may send at once after silence
};

/// The highest rate when the speed of the port is not known.
inline constexpr uint64_t kUnknownLinkBitsPerSecond = 100'000'000'000;
inline constexpr uint64_t kMegabit = 1'000'000;

}  // namespace uroce
