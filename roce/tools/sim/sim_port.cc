#include "sim/sim_port.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "fabric/frame_fields.h"
#include "packet/opcode.h"

namespace uroce::sim {

namespace {

/// How many entries of taken frames are kept before they are removed.
constexpr size_t kForgotten = 4096;

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
  if (config.pfc.lossless != 0) pauser_ = std::make_unique<Pauser>(config);
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
  ensure(count <= lent_, "the engine gives back what it was lent");
  for (uint32_t i = 0; i < count; i++) received_[first_ + i] = Frame();
  first_ += count;
  lent_ = 0;
  if (first_ == received_.size()) {
    received_.clear();
    first_ = 0;
  } else if (first_ >= kForgotten) {  // for a host that never empties its queue
    received_.erase(received_.begin(), received_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
  if (pauser_) watch_backlog();
}

uint32_t SimPort::room() const {
  if (out_of_buffers_) return 0;
  if (wire_ == nullptr) return tx_room_;
  if (queue_.full() || queued_bytes_ >= config_.tx_bytes) return 0;
  const uint32_t by_bytes = (config_.tx_bytes - queued_bytes_ + max_frame_bytes_ - 1) / max_frame_bytes_;
  return std::min({tx_room_, config_.tx_frames - queue_.size(), by_bytes});
}

void SimPort::set_tx_room(uint32_t frames) {
  tx_room_ = frames;
  waker_.wake();
}

void SimPort::set_out_of_buffers(bool out) {
  out_of_buffers_ = out;
  if (!out) waker_.wake();
}

uint32_t SimPort::acquire_tx(TxFrame* frames, uint32_t max) {
  const uint32_t count = std::min({max, room(), kMaxBurst});
  for (uint32_t i = 0; i < count; i++) {
    if (lent_tx_[i].data() == nullptr) lent_tx_[i] = Frame::with_capacity(max_frame_bytes_);
    frames[i] = {lent_tx_[i].data(), max_frame_bytes_, 0, nullptr};
  }
  return count;
}

namespace {

/// Gives an ACK another DSCP. Only the checksum of the IPv4 header covers that field, not the iCRC.
void remark_ack(Frame& frame, uint8_t dscp) {
  const std::span<uint8_t> bytes(frame.data(), frame.size());
  if (bytes.size() < kEthernetBytes) return;
  const fabric::FrameFields fields = fabric::inspect(bytes);
  const auto roce = fabric::roce_fields(bytes, fields);
  if (!roce || opcode_info(roce->opcode).operation != Operation::kAcknowledge) return;
  fabric::set_traffic_class(bytes, fields, static_cast<uint8_t>(dscp << 2));
}

}  // namespace

void SimPort::send(TxFrame* frames, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (frames[i].bytes == 0 || to_ == nullptr) continue;
    ensure(lent_tx_[i].data() == frames[i].data, "what is sent lies in a buffer that was lent");
    Frame frame = std::move(lent_tx_[i]);
    frame.set_size(frames[i].bytes);
    if (config_.ack_dscp) remark_ack(frame, *config_.ack_dscp);
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

/// The priority, as the fabric's switches classify frames.
unsigned priority_of(const Frame& frame) {
  if (frame.size() < kEthernetBytes) return 0;
  const fabric::FrameFields fields = fabric::inspect(frame);
  return fields.tagged ? fields.pcp : fields.dscp() / 8u;
}

}  // namespace

/// Gives the wire what it can take now, and schedules an event for when it can take more.
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
  ensure(!queue_.empty() || queued_bytes_ == 0, "the queue holds the bytes of its frames");
  if (!queue_.empty() && (drains_at_ <= now || next < drains_at_)) {
    drains_at_ = next;
    events_->schedule(*this, next, Event::kWireFree);
  }
  if (wake_wanted_ && room() != 0) {
    wake_wanted_ = false;
    waker_.wake();
  }
}

/// Called whenever the queue changes. Pause frames wait only for the frame on the wire.
void SimPort::watch_backlog() {
  pauser_->pfc.on_backlog(waiting(), events_->now());
  send_pauses(events_->now());
  counters_.pauses_sent = pauser_->pfc.pauses_begun();
}

void SimPort::send_pauses(Instant now) {
  Frame frame;
  if (pauser_->pfc.wants_transmit(now)) {
    frame = Frame::with_capacity(kPauseFrameBytes);
    TxFrame out{frame.data(), kPauseFrameBytes, 0, nullptr};
    if (pauser_->pfc.poll_transmit(out, now)) {
      frame.set_size(out.bytes);
      wire_->deliver(std::move(frame));
    }
  }
  const Instant next = pauser_->pfc.next_event();
  if (next >= pauser_->wakes_at) return;
  pauser_->wakes_at = next;
  events_->schedule(*this, next, Event::kPauses);
}

void SimPort::on_event(Event event, Instant now) {
  switch (event) {
    case Event::kWireFree:
      return on_wire_free(now);
    case Event::kPauses:
      return on_pauses(now);
  }
}

void SimPort::on_pauses(Instant now) {
  if (pauser_->wakes_at != now) return;
  pauser_->wakes_at = Instant::never();
  send_pauses(now);
}

void SimPort::on_wire_free(Instant now) {
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
  if (out_of_buffers_ || (config_.rx_frames != 0 && waiting() >= config_.rx_frames)) {
    counters_.rx_dropped++;
    return;
  }
  received_.push_back(std::move(frame));
  counters_.rx_most = std::max<uint64_t>(counters_.rx_most, waiting());
  if (pauser_) watch_backlog();
  waker_.wake();
}

}  // namespace uroce::sim
