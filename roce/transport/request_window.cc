#include "transport/request_window.h"

namespace uroce {

void RequestWindow::start(Psn first) {
  next_ = first;
  reset();
}

void RequestWindow::reset() {
  una_ = high_ = next_;
  cursor_ = ring_.head();
  packet_ = 0;
}

void RequestWindow::abandon() {
  next_ = high_;
  reset();
}

void RequestWindow::rewind() {
  cursor_ = ring_.head();
  const bool inside = !ring_.empty() && ring_.front().started && !ring_.front().is_local();
  packet_ = inside ? static_cast<uint32_t>(distance(ring_.front().first_psn, una_)) : 0;
  ensure(!inside || packet_ < ring_.front().packets, "una lies in the work request at the head");
  next_ = una_;
}

}  // namespace uroce
