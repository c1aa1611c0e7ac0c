#include "fabric/capped_queue.h"

#include <algorithm>

#include "base/check.h"
#include "fabric/frame_fields.h"
#include "packet/network_headers.h"

namespace uroce::fabric {
namespace {

// A loop that was stopped for longer than this (by SIGSTOP or a debugger) does not catch up on that time.
constexpr Duration kMostCatchUp = milliseconds(1000);

}  // namespace

CappedQueue::CappedQueue(const CappedQueueConfig& config, RandomSource& random)
    : waiting_(config.max_frames),
      max_bytes_(config.max_bytes),
      cable_(config.bits_per_second),
      marker_(config.ecn ? EcnMarker(*config.ecn, config.bits_per_second) : EcnMarker()),
      random_(random.next_u64()) {
  ensure(config.bits_per_second != 0, "a capped queue has a rate");
}

bool CappedQueue::push(const FabricFrame& frame, Instant now) {
  ensure(static_cast<bool>(frame), "a frame that waits has bytes");
  if (waiting_.full() || (bytes_ + frame.bytes > max_bytes_ && !waiting_.empty())) {
    counters_.full++;
    return false;
  }
  waiting_.push({frame, now});
  bytes_ += frame.bytes;
  counters_.most_bytes = std::max(counters_.most_bytes, bytes_);
  return true;
}

Instant CappedQueue::next() const {
  return waiting_.empty() ? Instant::never() : std::max(waiting_.front().since, cable_.ready_at());
}

FabricFrame CappedQueue::pop(Instant now, Instant& out) {
  if (now < next()) return {};
  const Instant start = std::max(next(), Instant{now.ns - kMostCatchUp.ns});
  FabricFrame frame = waiting_.front().frame;
  waiting_.pop();
  bytes_ -= frame.bytes;
  cable_.on_sent(frame.bytes, start);
  out = cable_.busy_until();
  counters_.frames++;
  if (marker_.marks(bytes_, random_) && frame.bytes >= kEthernetBytes) {
    (mark_congestion(frame.view(), inspect(frame.view())) ? counters_.ecn_marked : counters_.ecn_not_capable)++;
  }
  return frame;
}

}  // namespace uroce::fabric
