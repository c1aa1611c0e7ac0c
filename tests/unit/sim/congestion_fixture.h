// What a shared bottleneck is judged by.
#pragma once

#include <cstdio>
#include <vector>

#include "star.h"
#include "transport/counters.h"

namespace uroce::sim {

struct Sharing {
  double fairness = 0;     // Jain's index of the flows' goodput: 1 when all are equal, 1/n when one flow has all
  double utilisation = 0;  // of the bottleneck, headers included
  double mean_queue_bytes = 0;
};

/// Runs the star for `settle`, then measures for `measure`.
inline Sharing share(Star& star, const StarConfig& config, Duration settle, Duration measure) {
  star.start();
  star.run_for(settle);
  std::vector<uint64_t> before(star.senders());
  for (uint32_t i = 0; i < star.senders(); i++) before[i] = star.acknowledged(i);
  Sharing sharing;
  const uint64_t bytes_before = star.bottleneck().tx_bytes;
  const uint64_t frames_before = star.bottleneck().tx_frames;
  sharing.mean_queue_bytes = star.mean_queue_bytes(measure);
  double sum = 0;
  double squares = 0;
  for (uint32_t i = 0; i < star.senders(); i++) {
    const auto packets = static_cast<double>((star.acknowledged(i) - before[i]) & Psn::kMask);
    sum += packets;
    squares += packets * packets;
  }
  sharing.fairness = sum * sum / (star.senders() * squares);
  const uint64_t frames = star.bottleneck().tx_frames - frames_before;
  const uint64_t bytes = star.bottleneck().tx_bytes - bytes_before + frames * fabric::kWireOverheadBytes;
  const double capacity = static_cast<double>(config.bits_per_second) / 8e9 * static_cast<double>(measure.ns);
  sharing.utilisation = static_cast<double>(bytes) / capacity;
  std::printf("  %u flows: Jain %.4f, utilisation %.4f, queue %.0f bytes, %llu drops, %llu CNPs\n", star.senders(),
              sharing.fairness, sharing.utilisation, sharing.mean_queue_bytes,
              static_cast<unsigned long long>(star.drops()),
              static_cast<unsigned long long>(star.receiver_counters().np_cnp_sent));
  return sharing;
}

inline StarConfig star_config(CongestionAlgorithm algorithm, uint32_t senders, uint64_t gigabits) {
  StarConfig config;
  config.senders = senders;
  config.bits_per_second = gigabits * 1'000'000'000;
  config.congestion.algorithm = algorithm;
  config.congestion.burst_bytes = 0;
  config.congestion.timely.patched = true;  // without it nothing makes the shares equal
  return config;
}

}  // namespace uroce::sim
