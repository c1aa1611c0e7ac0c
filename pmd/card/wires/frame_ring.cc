#include "pmd/card/wires/frame_ring.h"

#include <atomic>

namespace mqnic::card {
namespace {

constexpr uint32_t kHeaderBytes = 8;
constexpr uint32_t kAlignment = 16;
constexpr uint32_t kSkip = 0xffffffffu;

constexpr uint32_t record_bytes(size_t frame_bytes) {
  return static_cast<uint32_t>((kHeaderBytes + frame_bytes + kAlignment - 1) & ~size_t{kAlignment - 1});
}

std::atomic_ref<uint32_t> word_at(uint8_t* memory, uint32_t offset) {
  return std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(__builtin_assume_aligned(memory + offset, 16)));
}

}  // namespace

std::span<uint8_t> FrameWriter::reserve(size_t frame_bytes, uint32_t tail) {
  if (frame_bytes == 0 || frame_bytes > kFrameBytesMax) return {};
  const uint32_t used = head_ - tail;
  if (used > bytes_) return {};
  const uint32_t need = record_bytes(frame_bytes);
  const uint32_t offset = head_ & (bytes_ - 1);
  const uint32_t to_end = bytes_ - offset;
  if (need <= to_end) {
    if (need > bytes_ - used) return {};
    return {memory_ + offset + kHeaderBytes, frame_bytes};
  }
  if (to_end + need > bytes_ - used) return {};
  word_at(memory_, offset).store(kSkip, std::memory_order_relaxed);
  head_ += to_end;
  return {memory_ + kHeaderBytes, frame_bytes};
}

void FrameWriter::commit(size_t frame_bytes) {
  word_at(memory_, head_ & (bytes_ - 1)).store(static_cast<uint32_t>(frame_bytes), std::memory_order_relaxed);
  head_ += record_bytes(frame_bytes);
}

// Reads the word once, so that the value that is checked is the one that is used, whatever the peer writes meanwhile.
uint32_t FrameReader::length_at(uint32_t offset) const {
  return word_at(memory_, offset).load(std::memory_order_relaxed);
}

std::span<const uint8_t> FrameReader::give_up(uint32_t head) {
  damages_++;
  tail_ = head & ~(kAlignment - 1);
  record_bytes_ = 0;
  return {};
}

std::span<const uint8_t> FrameReader::front(uint32_t head) {
  record_bytes_ = 0;
  uint32_t used = head - tail_;
  if (used == 0) return {};
  if (used > bytes_ || used % kAlignment != 0) return give_up(head);
  uint32_t offset = tail_ & (bytes_ - 1);
  uint32_t length = length_at(offset);
  if (length == kSkip) {
    const uint32_t to_end = bytes_ - offset;
    if (to_end > used) return give_up(head);
    tail_ += to_end;
    used -= to_end;
    if (used == 0) return {};
    offset = 0;
    length = length_at(offset);
  }
  if (length == 0 || length > kFrameBytesMax) return give_up(head);
  const uint32_t whole = record_bytes(length);
  if (whole > used || whole > bytes_ - offset) return give_up(head);
  record_bytes_ = whole;
  return {memory_ + offset + kHeaderBytes, length};
}

void FrameReader::pop() {
  tail_ += record_bytes_;
  record_bytes_ = 0;
}

}  // namespace mqnic::card
