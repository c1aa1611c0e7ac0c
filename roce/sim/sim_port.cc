#include "sim/sim_port.h"

#include <algorithm>
#include <utility>

#include "base/big_endian.h"

namespace uroce::sim {

namespace {

constexpr uint32_t kEthertypeAt = 12;
constexpr uint16_t kMacControl = 0x8808;
constexpr uint16_t kPauseOpcode = 0x0001;
constexpr uint16_t kPriorityPauseOpcode = 0x0101;
constexpr uint32_t kPauseBytes = 34;  // up to and including the last of the eight times
constexpr int64_t kQuantumBits = 512;

}  // namespace

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

/// Until when the priority of a frame is paused.
Instant SimPort::paused_until(const Frame& frame) const {
  unsigned priority = 0;
  const uint16_t ethertype = load_be16(frame.data() + kEthertypeAt);
  if (ethertype == 0x8100) {
    priority = frame[14] >> 5;
  } else if (ethertype == 0x0800) {
    priority = frame[15] >> 5;
  } else if (ethertype == 0x86dd) {
    priority = (frame[14] >> 1) & 7;
  }
  return paused_until_[priority];
}

/// Gives the wire what it can take now, and comes back when it can take more.
void SimPort::drain() {
  const Instant now = events_->now();
  Instant next = Instant::never();
  while (!queue_.empty()) {
    const Instant held = paused_until(queue_.front());
    next = std::max(held, wire_->ready_at());
    if (held > now && held_since_ == Instant::never()) held_since_ = now;
    if (next > now) break;
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
  if (frame.size() < kPauseBytes || load_be16(frame.data() + kEthertypeAt) != kMacControl) return false;
  const uint16_t opcode = load_be16(frame.data() + 14);
  if (opcode != kPauseOpcode && opcode != kPriorityPauseOpcode) return false;
  const bool all = opcode == kPauseOpcode;
  const uint16_t enabled = all ? 0xFF : load_be16(frame.data() + 16);
  const uint64_t rate = wire_->config().bits_per_second;
  for (unsigned priority = 0; priority < kPriorities; priority++) {
    if ((enabled >> priority & 1) == 0) continue;
    const int64_t quanta = load_be16(frame.data() + (all ? 16 : 18 + 2 * priority));
    const int64_t ns = rate == 0 ? 0 : quanta * kQuantumBits * 1'000'000'000 / static_cast<int64_t>(rate);
    paused_until_[priority] = events_->now() + nanoseconds(ns);
    (quanta != 0 ? counters_.pauses_received : counters_.resumes_received)++;
  }
  drain();
  return true;
}

void SimPort::deliver(Frame&& frame) {
  if (wire_ != nullptr && config_.obeys_pause && take_pause(frame)) return;
  received_.push_back(std::move(frame));
  waker_.wake();
}

}  // namespace uroce::sim
