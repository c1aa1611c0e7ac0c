// Round-trip times of one QP, from requests that asked for an answer to the answer.
//
// Only a packet that was sent once is measured: after a retransmission it is not known which of the two was answered
// (Karn's rule). So `forget` must be called before anything is sent again.
//
// An answer may wait at the peer, either for a request with which it can travel, or for a busy program. `smoothed`
// includes that, as a timer should; `minimum` is close to the path alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "uroce/psn.h"
#include "uroce/time.h"

namespace uroce {

class RttSampler {
 public:
  static constexpr uint32_t kProbes = 16;  // more than the packets of one window that ask for an answer

  void reset() { *this = RttSampler(); }

  /// A packet that the peer answers at once left for the first time. PSNs must go up from call to call. When too many
  /// are under way, this one is not measured.
  void on_sent(Psn psn, Instant now) {
    if (count_ == kProbes) return;
    probes_[(first_ + count_) % kProbes] = {psn, now};
    count_++;
  }

  /// Everything up to and including `psn` is answered. The sample, if any, is that of the newest packet among those,
  /// since one answer may stand for several.
  std::optional<Duration> on_answered(Psn psn, Instant now) {
    if (count_ == 0 || psn.before(probes_[first_].psn)) return std::nullopt;
    Instant sent_at{};
    while (count_ != 0 && !psn.before(probes_[first_].psn)) {
      sent_at = probes_[first_].sent_at;
      first_ = (first_ + 1) % kProbes;
      count_--;
    }
    const Duration sample{std::max<int64_t>(now.ns - sent_at.ns, 1)};
    add(sample);
    return sample;
  }

  /// Adds a sample that was taken elsewhere.
  void add(Duration sample) {
    latest_ = sample;
    if (samples_++ == 0) {
      minimum_ = smoothed_ = sample;
      variation_ = {sample.ns / 2};
      return;
    }
    minimum_ = std::min(minimum_, sample);
    const int64_t error = sample.ns - smoothed_.ns;
    variation_.ns += ((error < 0 ? -error : error) - variation_.ns) / 4;
    smoothed_.ns += error / 8;
  }

  /// Something is about to be sent again.
  void forget() { count_ = 0; }

  bool known() const { return samples_ != 0; }
  uint64_t samples() const { return samples_; }
  // 0 until a sample is there.
  Duration latest() const { return latest_; }
  Duration minimum() const { return minimum_; }
  Duration smoothed() const { return smoothed_; }    // RFC 6298's SRTT
  Duration variation() const { return variation_; }  // RFC 6298's RTTVAR

 private:
  struct Probe {
    Psn psn;
    Instant sent_at;
  };

  Probe probes_[kProbes];
  uint32_t first_ = 0;
  uint32_t count_ = 0;
  uint64_t samples_ = 0;
  Duration latest_{};
  Duration minimum_{};
  Duration smoothed_{};
  Duration variation_{};
};

}  // namespace uroce
