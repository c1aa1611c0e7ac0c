#include "fabric/faulty_port.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "packet/mac_control.h"

namespace uroce::fabric {
namespace {

/// As many as the user allows in each direction of the cable and in the queue, those lent to the engine in both
/// directions, and those for duplicates while all others are in use.
uint32_t buffers_for(const LinkFaults& faults) {
  const uint32_t parts = 1u + (faults.in.empty() ? 0u : 1u) + (faults.bits_per_second == 0 ? 0u : 1u);
  return parts * faults.frames + 2 * Port::kMaxBurst + Impairments::kMaxDeliveries;
}

CappedQueueConfig queue_of(const LinkFaults& faults) {
  return {faults.bits_per_second, faults.queue_bytes, faults.frames, faults.ecn};
}

}  // namespace

FaultyPort::FaultyPort(const LinkFaults& faults, Port& device, uint32_t frame_bytes, Clock clock)
    : device_(device),
      frame_bytes_(frame_bytes),
      clock_(std::move(clock)),
      random_(faults.seed.value_or(0)),
      pool_(frame_bytes, buffers_for(faults)),
      out_(faults.out, faults.frames, pool_, random_, clock_()),
      in_(faults.in, faults.in.empty() ? 0 : faults.frames, pool_, random_, clock_()) {
  ensure(faults.seed.has_value(), "faults that can be repeated have a seed");
  if (faults.bits_per_second != 0) queue_ = std::make_unique<CappedQueue>(queue_of(faults), random_);
  pool_.reserve(buffers_for(faults));
}

// Out.

uint32_t FaultyPort::acquire_tx(TxFrame* frames, uint32_t max) {
  flush();
  if (out_.next() <= clock_()) return 0;
  uint32_t count = 0;
  for (; count < max; count++) {
    const FabricFrame frame = pool_.allocate(frame_bytes_);
    if (!frame) break;
    frames[count] = {frame.data, frame_bytes_, 0, nullptr};
  }
  return count;
}

void FaultyPort::send(TxFrame* frames, uint32_t count) {
  const Instant now = clock_();
  for (uint32_t i = 0; i < count; i++) {
    const FabricFrame frame{frames[i].data, frames[i].bytes, nullptr};
    ensure(frame.bytes <= frame_bytes_, "a frame is no longer than its buffer");
    const bool waits = queue_ && !is_mac_control(frame.view());  // a pause does not wait behind paused frames
    if (frame.bytes == 0 || (waits && !queue_->push(frame, now))) {
      pool_.release(frame);
    } else if (!waits) {
      out_.put(frame, now);
    }
  }
  flush();
}

/// Frames whose last bit has left the queue enter the cable.
void FaultyPort::drain_queue(Instant now) {
  Instant out;
  while (const FabricFrame frame = queue_->pop(now, out)) out_.put(frame, out);
}

void FaultyPort::flush() {
  const Instant now = clock_();
  if (queue_) drain_queue(now);
  while (out_.next() <= now) {
    std::array<TxFrame, kFlushBurst> frames;
    const uint32_t lent = device_.acquire_tx(frames.data(), kFlushBurst);
    if (lent == 0) return;
    uint32_t used = 0;
    while (used < lent && fill(frames[used], now)) used++;
    device_.send(frames.data(), lent);
  }
}

/// Copies the next frame that is due. False when there is none.
bool FaultyPort::fill(TxFrame& to, Instant now) {
  while (const FabricFrame frame = out_.take(now)) {
    const bool fits = frame.bytes <= to.capacity;
    if (fits) {
      std::memcpy(to.data, frame.data, frame.bytes);
      to.bytes = frame.bytes;
    } else {
      out_too_long_++;
    }
    pool_.release(frame);
    if (fits) return true;
  }
  return false;
}

// In.

uint32_t FaultyPort::receive(RxFrame* frames, uint32_t max) {
  if (!in_.active()) return device_.receive(frames, max);
  const Instant now = clock_();
  const uint32_t arrived = device_.receive(frames, max);
  for (uint32_t i = 0; i < arrived; i++) take_in(frames[i], now);
  if (arrived != 0) device_.release_rx(frames, arrived);
  uint32_t count = 0;
  while (count < max) {
    const FabricFrame frame = in_.take(now);
    if (!frame) break;
    frames[count++] = {frame.data, frame.bytes, nullptr, nullptr};
  }
  return count;
}

void FaultyPort::take_in(const RxFrame& frame, Instant now) {
  if (frame.bytes > frame_bytes_) {
    in_too_long_++;
    return;
  }
  const FabricFrame copy = pool_.allocate(frame.bytes);
  if (!copy) {
    in_no_memory_++;
    return;
  }
  std::memcpy(copy.data, frame.data, frame.bytes);
  // Headers, which decide something, are read where no other program can write.
  if (frame.headers != nullptr) std::memcpy(copy.data, frame.headers, std::min(frame.bytes, RxFrame::kHeaderBytes));
  in_.put(copy, now);
}

void FaultyPort::release_rx(RxFrame* frames, uint32_t count) {
  if (!in_.active()) return device_.release_rx(frames, count);
  for (uint32_t i = 0; i < count; i++) pool_.release({const_cast<uint8_t*>(frames[i].data), frames[i].bytes, nullptr});
}

Instant FaultyPort::next_timeout() const {
  const Instant cable = std::min(out_.next(), in_.next());
  return queue_ ? std::min(cable, queue_->next()) : cable;
}

}  // namespace uroce::fabric
