// Spaces the packets of one QP so that they keep to a rate: a token bucket, kept as the instant at which the next
// packet may leave.
//
// A packet may leave, whole, when the bucket is not in debt. A sender that comes late, or was silent, may catch up by
// `burst_bytes`. Rounding errors do not add up: what is lost by rounding to whole nanoseconds is carried over.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "uroce/time.h"

namespace uroce {

class Pacer {
 public:
  void reset() { *this = Pacer(); }

  bool limited() const { return rate_ != 0; }
  /// A rate of 0 is no limit. Bytes that are still owed are paid off at the new rate.
  void set_rate(uint64_t bits_per_second, uint32_t burst_bytes, Instant now) {
    if (bits_per_second == rate_) return;
    if (bits_per_second == 0) return reset();
    if (rate_ != 0 && now < open_at_) {
      const auto owed = static_cast<unsigned __int128>((open_at_ - now).ns) * rate_;
      open_at_ = now + nanoseconds(static_cast<int64_t>(owed / bits_per_second));
    }
    rate_ = bits_per_second;
    rest_ = 0;
    burst_ = nanoseconds(static_cast<int64_t>(burst_bytes * kNsBits / rate_));
  }

  bool open(Instant now) const { return open_at_ <= now; }
  Instant open_at() const { return open_at_; }

  void on_sent(uint32_t bytes, Instant now) {
    ensure(limited(), "who paces has a rate");
    const Instant earliest = now + Duration{-burst_.ns};
    if (open_at_ < earliest) open_at_ = earliest;
    const uint64_t work = bytes * kNsBits + rest_;
    open_at_ = open_at_ + nanoseconds(static_cast<int64_t>(work / rate_));
    rest_ = work % rate_;
  }

 private:
  static constexpr uint64_t kNsBits = 8'000'000'000;  // bits in a byte times nanoseconds in a second

  uint64_t rate_ = 0;
  uint64_t rest_ = 0;
  Instant open_at_{0};
  Duration burst_{0};
};

}  // namespace uroce
