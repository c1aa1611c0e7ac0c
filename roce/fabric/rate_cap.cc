#include "fabric/rate_cap.h"

#include "base/check.h"

namespace uroce::fabric {

namespace {
constexpr uint64_t kNsPerSecond = 1'000'000'000;
}

RateCap::RateCap(uint64_t bits_per_second, uint32_t burst_bytes) : bits_per_second_(bits_per_second) {
  if (bits_per_second_ == 0) return;
  burst_ = nanoseconds(static_cast<int64_t>(uint64_t{burst_bytes} * 8 * kNsPerSecond / bits_per_second_));
}

void RateCap::on_sent(uint32_t frame_bytes, Instant now) {
  if (bits_per_second_ == 0) return;
  if (busy_until_ < now) {
    busy_until_ = now;
    remainder_ = 0;
  }
  ensure(remainder_ < bits_per_second_, "what was left over is less than a nanosecond");
  const uint64_t cost = (uint64_t{frame_bytes} + kWireOverheadBytes) * 8 * kNsPerSecond + remainder_;
  busy_until_.ns += static_cast<int64_t>(cost / bits_per_second_);
  remainder_ = cost % bits_per_second_;
  ensure(busy_until_ >= now, "a frame is not out before it leaves");
}

}  // namespace uroce::fabric
