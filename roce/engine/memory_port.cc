#include "uroce/memory_port.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace uroce {

MemoryPort::MemoryPort(uint32_t frames, uint32_t frame_bytes)
    : frames_(frames), frame_bytes_(frame_bytes), from_engine_(frames, frame_bytes), to_engine_(frames, frame_bytes) {}

uint8_t* MemoryPort::slot(Queue& queue, uint64_t number) const {
  return queue.memory.data() + number % frames_ * frame_bytes_;
}

std::optional<std::span<const uint8_t>> MemoryPort::take() {
  Queue& queue = from_engine_;
  queue.released = queue.head;
  if (queue.size() == 0) return std::nullopt;
  const uint64_t number = queue.head++;
  return std::span<const uint8_t>(slot(queue, number), queue.bytes[number % frames_]);
}

bool MemoryPort::deliver(std::span<const uint8_t> frame) {
  Queue& queue = to_engine_;
  if (frame.size() > frame_bytes_ || full(queue)) return false;
  std::memcpy(slot(queue, queue.tail), frame.data(), frame.size());
  queue.bytes[queue.tail++ % frames_] = static_cast<uint32_t>(frame.size());
  return true;
}

uint32_t MemoryPort::receive(RxFrame* frames, uint32_t max) {
  Queue& queue = to_engine_;
  const uint32_t count = std::min(max, queue.size());
  for (uint32_t i = 0; i < count; i++, queue.head++) {
    frames[i] = {slot(queue, queue.head), queue.bytes[queue.head % frames_], nullptr};
  }
  return count;
}

void MemoryPort::release_rx(RxFrame* /*frames*/, uint32_t count) {
  to_engine_.released += count;
  ensure(to_engine_.released <= to_engine_.head, "frames are given back once");
}

uint32_t MemoryPort::acquire_tx(TxFrame* frames, uint32_t max) {
  Queue& queue = from_engine_;
  const auto room = static_cast<uint32_t>(frames_ - (queue.tail - queue.released));
  const uint32_t count = std::min(max, room);
  for (uint32_t i = 0; i < count; i++) frames[i] = {slot(queue, queue.tail + i), frame_bytes_, 0, nullptr};
  return count;
}

void MemoryPort::send(TxFrame* frames, uint32_t count) {
  Queue& queue = from_engine_;
  for (uint32_t i = 0; i < count; i++) {
    if (frames[i].bytes == 0) continue;
    // One before it was not used: this one moves up, so that slots stay in order.
    uint8_t* const place = slot(queue, queue.tail);
    if (place != frames[i].data) std::memmove(place, frames[i].data, frames[i].bytes);
    queue.bytes[queue.tail++ % frames_] = frames[i].bytes;
  }
}

}  // namespace uroce
