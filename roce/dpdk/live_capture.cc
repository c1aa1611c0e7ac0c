#include "dpdk/live_capture.h"

#include <rte_cycles.h>

namespace uroce {

std::unique_ptr<LiveCapture> LiveCapture::create(const std::string& name, const std::string& port, std::string& error) {
  std::unique_ptr<LiveCapture> capture(new LiveCapture);
  const bool good =
      capture->ring_.make(error) && capture->connection_.join(name, make_greeting(port), capture->ring_.fd(), error);
  return good ? std::move(capture) : nullptr;
}

void LiveCapture::take(bool sent, uint32_t qpn, Instant now, std::span<const uint8_t> frame) {
  if (deaf_) return;
  // Not the turn's time: so a frame is always sent before it is received, even if a thread had to wait for a CPU in
  // between.
  if (ring_.push({.ticks = rte_rdtsc(), .sent = sent, .qpn = qpn, .bytes = frame})) return;
  if (now < next_look_) return;
  next_look_ = now + kLookForReader;
  deaf_ = ended();
}

void LiveCapture::abandon() {
  ring_.forget();
  connection_.forget();
}

}  // namespace uroce
