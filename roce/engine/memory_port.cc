#include "uroce/memory_port.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/check.h"

namespace uroce {

/// Frames in the order of their slots; numbers grow for ever.
struct MemoryPort::Queue {
  Queue(uint32_t most, uint32_t bytes_each)
      : frames(most),
        frame_bytes(bytes_each),
        mask(std::bit_ceil(std::max(most, 1u)) - 1),
        memory(new uint8_t[(size_t{mask} + 1) * bytes_each]),  // not touched before it is written
        bytes(size_t{mask} + 1) {}

  uint32_t size() const { return static_cast<uint32_t>(tail - head); }
  uint32_t room() const { return static_cast<uint32_t>(frames - (tail - released)); }
  uint8_t* slot(uint64_t number) const { return memory.get() + (number & mask) * frame_bytes; }
  uint32_t& bytes_of(uint64_t number) { return bytes[number & mask]; }

  const uint32_t frames;
  const uint32_t frame_bytes;
  const uint64_t mask;
  const std::unique_ptr<uint8_t[]> memory;
  std::vector<uint32_t> bytes;
  uint64_t head = 0;      // the oldest
  uint64_t released = 0;  // slots before this one may be written again
  uint64_t tail = 0;
};

MemoryPort::MemoryPort(uint32_t frames, uint32_t frame_bytes)
    : from_engine_(std::make_shared<Queue>(frames, frame_bytes)),
      to_engine_(std::make_shared<Queue>(frames, frame_bytes)) {}

MemoryPort::~MemoryPort() = default;

void MemoryPort::join(MemoryPort& a, MemoryPort& b) {
  for (Queue* queue : {a.from_engine_.get(), b.from_engine_.get()}) queue->head = queue->released = queue->tail;
  a.to_engine_ = b.from_engine_;
  b.to_engine_ = a.from_engine_;
}

uint32_t MemoryPort::waiting() const { return to_engine_->size(); }
uint32_t MemoryPort::sent() const { return from_engine_->size(); }

std::optional<std::span<const uint8_t>> MemoryPort::take() {
  Queue& queue = *from_engine_;
  queue.released = queue.head;
  if (queue.size() == 0) return std::nullopt;
  const uint64_t number = queue.head++;
  return std::span<const uint8_t>(queue.slot(number), queue.bytes_of(number));
}

uint32_t MemoryPort::discard() {
  const uint32_t count = sent();
  from_engine_->released = from_engine_->head = from_engine_->tail;
  return count;
}

bool MemoryPort::deliver(std::span<const uint8_t> frame) {
  Queue& queue = *to_engine_;
  if (frame.size() > queue.frame_bytes || queue.room() == 0) return false;
  std::copy(frame.begin(), frame.end(), queue.slot(queue.tail));
  queue.bytes_of(queue.tail++) = static_cast<uint32_t>(frame.size());
  return true;
}

uint32_t MemoryPort::receive(RxFrame* frames, uint32_t max) {
  Queue& queue = *to_engine_;
  const uint32_t count = std::min(max, queue.size());
  for (uint32_t i = 0; i < count; i++, queue.head++) {
    frames[i] = {queue.slot(queue.head), queue.bytes_of(queue.head), nullptr};
  }
  return count;
}

void MemoryPort::release_rx(RxFrame* /*frames*/, uint32_t count) {
  to_engine_->released += count;
  ensure(to_engine_->released <= to_engine_->head, "frames are given back once");
}

uint32_t MemoryPort::acquire_tx(TxFrame* frames, uint32_t max) {
  if (congested_) return 0;
  const Queue& queue = *from_engine_;
  const uint32_t count = std::min(max, queue.room());
  const uint64_t tail = queue.tail;
  for (uint32_t i = 0; i < count; i++) frames[i] = {queue.slot(tail + i), queue.frame_bytes, 0, nullptr};
  return count;
}

void MemoryPort::send(TxFrame* frames, uint32_t count) {
  Queue& queue = *from_engine_;
  ensure(count <= queue.room(), "what is sent lies in room that was lent");
  const uint64_t begin = queue.tail;
  uint64_t tail = begin;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t bytes = frames[i].bytes;
    if (bytes == 0) continue;
    ensure(bytes <= queue.frame_bytes, "a frame fits where it was written");
    ensure(frames[i].data == queue.slot(begin + i), "what is sent is what was lent, in that order");
    // A frame before this one was not used: this one moves up, so that slots stay in order.
    if (tail != begin + i) std::memmove(queue.slot(tail), frames[i].data, bytes);
    queue.bytes_of(tail++) = bytes;
  }
  queue.tail = tail;
}

}  // namespace uroce
