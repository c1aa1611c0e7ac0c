#include "pmd/card/wires/frame_ring.h"

namespace mqnic::card {

std::span<uint8_t> FrameWriter::reserve_behind_end(uint32_t need, size_t frame_bytes, uint32_t used) {
  const uint32_t offset = head_ & (bytes_ - 1);
  const uint32_t to_end = bytes_ - offset;
  if (to_end + need > bytes_ - used) return {};
  frame_ring::word_at(memory_, offset).store(frame_ring::kSkip, std::memory_order_relaxed);
  head_ += to_end;
  return {memory_ + frame_ring::kHeaderBytes, frame_bytes};
}

std::span<const uint8_t> FrameReader::give_up(uint32_t head) {
  damages_++;
  tail_ = head & ~(frame_ring::kAlignment - 1);
  record_bytes_ = 0;
  return {};
}

}  // namespace mqnic::card
