// The engine's outgoing half: who may send, loopback, timers.
#include <algorithm>
#include <cstring>

#include "engine/engine.h"
#include "engine/loopback.h"

namespace uroce {

namespace {

constexpr uint32_t kSendBurst = 32;
constexpr uint32_t kFirstBurst = 4;  // a post or an answer rarely needs more; bulk senders come back for whole bursts
constexpr uint32_t kSendsPerTurn = 5;
constexpr uint32_t kQuantum = 16;  // frames of one QP before the next has its turn

}  // namespace

/// After anything that touched a QP: queue it if it has something to send, and keep its timer.
void Engine::update(Qp& qp) {
  if (!ready_.contains(qp) && !parked_.contains(qp) && qp.wants_transmit()) ready_.push(qp);
  timers_.arm(qp.index(), qp.next_timeout());
}

void Engine::run_timers(Instant now) {
  for (uint32_t owner = timers_.pop_due(now); owner != TimerQueue::kNone; owner = timers_.pop_due(now)) {
    Qp* qp = qps_.at(owner);
    if (qp == nullptr) continue;
    if (qp->next_timeout() <= now) qp->on_timeout(now);
    // A peer that is silent may have another MAC by now. One without any is being asked for already.
    if (qp->requester().retry_timer().timed_out() && qp->path_resolved())
      ask_for(qp->path(), qp->attributes().av.sgid_index);
    update(*qp);
  }
}

Instant Engine::next_timeout() const {
  return std::min({timers_.next(), neighbours_.next_timeout(), pfc_.next_event()});
}

bool Engine::wants_transmit() const {
  return !ready_.empty() || !cnps_.empty() || (loopback_ && !loopback_->lengths.empty());
}

/// Frames that no port should see: to ourselves, or to a peer whose MAC is not known yet. True when taken.
bool Engine::divert(TxFrame& frame, Instant now) {
  MacAddress dst;
  std::memcpy(dst.bytes.data(), frame.data, dst.bytes.size());
  if (dst.is_zero()) {
    counters_.tx_neighbour_unresolved++;
    return true;
  }
  if (dst != config_.mac || !loopback_) return false;
  if (capture_ != nullptr) capture_->on_frame(Direction::kSent, now, {frame.data, frame.bytes});
  if (loopback_->full()) {
    counters_.loopback_full++;
  } else {
    counters_.loopback_packets++;
    loopback_->push(frame);
  }
  return true;
}

/// One frame of `qp` into `frame`. False when it has none for the port now.
bool Engine::transmit_one(Qp& qp, TxFrame& frame, Instant now) {
  for (;;) {
    if (loopback_ && loopback_->full()) return false;
    if (!qp.poll_transmit(frame, now)) return false;
    if (!divert(frame, now)) return true;
    frame.bytes = 0;
  }
}

/// Fills up to `count` frames from the QPs in turn; returns how many.
uint32_t Engine::send_qp_frames(TxFrame* frames, uint32_t count, Instant now) {
  uint32_t used = 0;
  uint32_t rounds = ready_.size();
  while (used < count && rounds > 0 && !ready_.empty()) {
    Qp& qp = ready_.front();
    ready_.pop();
    if (pfc_.paused() != 0 && blocked(qp.priority())) {
      parked_.push(qp);
      parked_pauses_ = pfc_.paused();
      rounds--;
      continue;
    }
    uint32_t quantum = std::min(kQuantum, count - used);
    while (quantum > 0 && transmit_one(qp, frames[used], now)) {
      used++;
      quantum--;
    }
    update(qp);
    // A QP that used up its quantum has its turn again as long as there is room; one that had nothing more, not.
    if (quantum != 0) rounds--;
  }
  return used;
}

/// Other pauses than when they were parked: those that are still paused are parked again.
void Engine::unpark() {
  for (; !parked_.empty(); parked_.pop()) ready_.push(parked_.front());
}

/// News of congestion goes before everything else.
uint32_t Engine::send_cnps(TxFrame* frames, uint32_t count, Instant now) {
  uint32_t used = 0;
  while (used < count && !cnps_.empty()) {
    Qp& qp = cnps_.front();
    cnps_.pop();
    if (!qp.encode_cnp(frames[used])) continue;
    if (divert(frames[used], now)) {
      frames[used].bytes = 0;
      continue;
    }
    counters_.np_cnp_sent++;
    used++;
  }
  return used;
}

uint32_t Engine::send_host_frames(TxFrame* frames, uint32_t count, Instant now) {
  uint32_t used = 0;
  if (pfc_.wants_transmit(now) && pfc_.poll_transmit(frames[0], now)) used++;
  while (used < count && neighbours_.next_timeout() <= now && neighbours_.poll_transmit(frames[used], now)) used++;
  return used;
}

/// Sends up to `size` frames; returns how many.
uint32_t Engine::transmit_burst(uint32_t size, Instant now) {
  const bool host = neighbours_.next_timeout() <= now || pfc_.wants_transmit(now);
  if (!parked_.empty() && pfc_.paused() != parked_pauses_) unpark();
  if (ready_.empty() && cnps_.empty() && !host) return 0;
  TxFrame frames[kSendBurst];
  const uint32_t acquired = port_.acquire_tx(frames, size);
  ensure(acquired <= size, "a port lends no more frames than it was asked for");
  if (acquired == 0) {
    counters_.tx_port_full++;
    return 0;
  }
  uint32_t used = host ? send_host_frames(frames, acquired, now) : 0;
  if (!cnps_.empty()) used += send_cnps(frames + used, acquired - used, now);
  used += send_qp_frames(frames + used, acquired - used, now);
  for (uint32_t i = 0; i < used; i++) {
    counters_.tx_packets++;
    counters_.tx_bytes += frames[i].bytes;
    if (capture_ != nullptr) capture_->on_frame(Direction::kSent, now, {frames[i].data, frames[i].bytes});
  }
  port_.send(frames, acquired);
  return used;
}

uint32_t Engine::transmit(Instant now) {
  check_owner();
  now_ = now;
  uint32_t total = 0;
  for (uint32_t i = 0; i < kSendsPerTurn; i++) {
    const uint32_t size = i == 0 ? kFirstBurst : kSendBurst;
    const uint32_t sent = transmit_burst(size, now);
    total += sent;
    if (sent < size) break;
  }
  return total;
}

uint32_t Engine::drain_loopback(Instant now) {
  if (!loopback_) return 0;
  // Only what is there now: what these frames cause comes in the next turn.
  const uint32_t count = loopback_->lengths.size();
  for (uint32_t i = 0; i < count; i++) {
    const auto frame = loopback_->front();
    const RxFrame rx{frame.data(), static_cast<uint32_t>(frame.size()), nullptr};
    process({&rx, 1}, now);
    loopback_->pop();
  }
  return count;
}

uint32_t Engine::turn(Instant now) {
  check_owner();
  now_ = now;
  uint32_t work = receive(now);
  work += drain_loopback(now);
  run_timers(now);
  if (pfc_.next_event() <= now) pfc_.on_time(now);
  work += transmit(now);
  return work;
}

}  // namespace uroce
