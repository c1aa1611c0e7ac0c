#include "transport/flight_limit.h"

#include <algorithm>

#include "base/check.h"

namespace uroce {

namespace {

constexpr uint32_t kFloor = 8;  // losses never reduce the number below this, or below a smaller window

}  // namespace

void FlightLimit::on_loss() {
  allowed_ = std::max(allowed_ / 2, std::min(kFloor, window_));
  ensure(allowed_ <= window_, "a loss opens no window");
}

}  // namespace uroce
