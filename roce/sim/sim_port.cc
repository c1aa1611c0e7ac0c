#include "sim/sim_port.h"

#include <algorithm>
#include <utility>

#include "fabric/frame_fields.h"

namespace uroce::sim {

SimPort::SimPort(uint32_t max_frame_bytes, Waker& waker)
    : waker_(waker), max_frame_bytes_(max_frame_bytes), queue_(0) {}

void SimPort::connect(EventQueue& events, Link& wire, const NicConfig& config) {
  to_ = &wire;
  if (config.tx_frames == 0) return;
  events_ = &events;
  wire_ = &wire;
  config_ = config;
  queue_ = Ring<Frame>(config.tx_frames);
}

uint32_t SimPort::receive(RxFrame* frames, uint32_t max) {
  const auto count = static_cast<uint32_t>(std::min<size_t>(max, received_.size() - first_));
  for (uint32_t i = 0; i < count; i++) {
    const Frame& frame = received_[first_ + i];
    frames[i] = {frame.data(), static_cast<uint32_t>(frame.size()), nullptr};
  }
  lent_ = count;
  return count;
}

void SimPort::release_rx(RxFrame* /*frames*/, uint32_t count) {
  count = std::min(count, lent_);
  for (uint32_t i = 0; i < count; i++) received_[first_ + i] = Frame();
  first_ += count;
  lent_ = 0;
  if (first_ != received_.size()) return;
  received_.clear();
  first_ = 0;
}

uint32_t SimPort::room() const {
  if (wire_ == nullptr) return tx_room_;
  if (queue_.full() || queued_bytes_ >= config_.tx_bytes) return 0;
  const uint32_t by_bytes = (config_.tx_bytes - queued_bytes_ + max_frame_bytes_ - 1) / max_frame_bytes_;
  return std::min({tx_room_, config_.tx_frames - queue_.size(), by_bytes});
}

void SimPort::set_tx_room(uint32_t frames) {
  tx_room_ = frames;
  waker_.wake();
}

uint32_t SimPort::acquire_tx(TxFrame* frames, uint32_t max) {
  const uint32_t count = std::min({max, room(), kMaxBurst});
  for (uint32_t i = 0; i < count; i++) {
    if (lent_tx_[i].data() == nullptr) lent_tx_[i] = Frame::with_capacity(max_frame_bytes_);
    frames[i] = {lent_tx_[i].data(), max_frame_bytes_, 0, nullptr};
  }
  return count;
}

void SimPort::send(TxFrame* frames, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (frames[i].bytes == 0 || to_ == nullptr) continue;
    Frame frame = std::move(lent_tx_[i]);
    frame.set_size(frames[i].bytes);
    if (wire_ == nullptr) {
      to_->deliver(std::move(frame));
    } else {
      queued_bytes_ += frames[i].bytes;
      queue_.next_slot() = std::move(frame);
      queue_.push();
    }
  }
  if (wire_ != nullptr) drain();
}

namespace {

/// As the fabric's switches classify.
unsigned priority_of(const Frame& frame) {
  if (frame.size() < fabric::kEthernetBytes) return 0;
  const fabric::FrameFields fields = fabric::inspect(frame);
  return fields.tagged ? fields.pcp : fields.dscp() / 8u;
}

}  // namespace

/// Gives the wire what it can take now, and comes back when it can take more.
void SimPort::drain() {
  const Instant now = events_->now();
  Instant next = Instant::never();
  while (!queue_.empty()) {
    const bool held = (pauses_.paused(now) >> priority_of(queue_.front()) & 1) != 0;
    next = held ? std::max(pauses_.next_resume(), wire_->ready_at()) : wire_->ready_at();
    if (held && held_since_ == Instant::never()) held_since_ = now;
    if (held || next > now) break;
    if (held_since_ != Instant::never()) {
      counters_.paused_ns += static_cast<uint64_t>((now - held_since_).ns);
      held_since_ = Instant::never();
    }
    queued_bytes_ -= static_cast<uint32_t>(queue_.front().size());
    wire_->deliver(std::move(queue_.front()));
    queue_.pop();
  }
  if (!queue_.empty() && (drains_at_ <= now || next < drains_at_)) {
    drains_at_ = next;
    events_->schedule(*this, next);
  }
  if (wake_wanted_ && room() != 0) {
    wake_wanted_ = false;
    waker_.wake();
  }
}

void SimPort::on_event(uint64_t /*what*/, Instant now) {
  if (drains_at_ <= now) drains_at_ = Instant::never();
  drain();
}

/// True when it was a pause frame.
bool SimPort::take_pause(const Frame& frame) {
  const auto pause = decode_pause(frame);
  if (!pause) return false;
  bool stops = false;
  for (unsigned i = 0; i < kPriorities; i++) stops |= (pause->priorities >> i & 1) != 0 && pause->quanta[i] != 0;
  (stops ? counters_.pauses_received : counters_.resumes_received)++;
  pauses_.on_pause(*pause, wire_->bits_per_second(), events_->now());
  drain();
  return true;
}

void SimPort::deliver(Frame&& frame) {
  if (wire_ != nullptr && config_.obeys_pause && take_pause(frame)) return;
  received_.push_back(std::move(frame));
  waker_.wake();
}

}  // namespace uroce::sim
