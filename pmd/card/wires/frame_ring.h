// A ring of bytes with frames packed one after the other, and its two users: a writer and a reader. They share the
// memory; their owner decides how they tell each other their positions.
//
// Positions count bytes and run freely. A record is a word with the frame's length, a word that is not used, and the
// frame, rounded up to 16 bytes. A frame never wraps around: a record of length kSkip fills the end of the ring.
//
// The reader does not trust the memory: the peer may write anything at any time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mqnic::card {

/// The longest frame that a wire carries. The card's own limit is 9214.
inline constexpr size_t kFrameBytesMax = 10240 - 64;

namespace frame_ring {

inline constexpr uint32_t kHeaderBytes = 8;
inline constexpr uint32_t kAlignment = 16;
inline constexpr uint32_t kSkip = 0xffffffffu;
// How far ahead of a reader, while frames are short and while they are long.
inline constexpr uint32_t kNearBytes = 256, kFarBytes = 1536;

constexpr uint32_t record_bytes(size_t frame_bytes) {
  return static_cast<uint32_t>((kHeaderBytes + frame_bytes + kAlignment - 1) & ~size_t{kAlignment - 1});
}

inline std::atomic_ref<uint32_t> word_at(uint8_t* memory, uint32_t offset) {
  return std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(__builtin_assume_aligned(memory + offset, 16)));
}

}  // namespace frame_ring

class FrameWriter {
 public:
  /// `bytes` is a power of two, and several times kFrameBytesMax.
  FrameWriter(uint8_t* memory, uint32_t bytes) : memory_(memory), bytes_(bytes) {}

  /// Room for a frame of up to `frame_bytes`, when the reader is at `tail`. Empty when there is no room now, or when
  /// the frame is too long. An impossible tail leaves no room.
  std::span<uint8_t> reserve(size_t frame_bytes, uint32_t tail) {
    if (frame_bytes == 0 || frame_bytes > kFrameBytesMax) return {};
    const uint32_t used = head_ - tail;
    if (used > bytes_) return {};
    const uint32_t need = frame_ring::record_bytes(frame_bytes);
    const uint32_t offset = head_ & (bytes_ - 1);
    if (need > bytes_ - offset) [[unlikely]]
      return reserve_behind_end(need, frame_bytes, used);
    if (need > bytes_ - used) return {};
    return {memory_ + offset + frame_ring::kHeaderBytes, frame_bytes};
  }
  /// `frame_bytes` is at most what was reserved.
  void commit(size_t frame_bytes) {
    frame_ring::word_at(memory_, head_ & (bytes_ - 1))
        .store(static_cast<uint32_t>(frame_bytes), std::memory_order_relaxed);
    head_ += frame_ring::record_bytes(frame_bytes);
  }

  uint32_t head() const { return head_; }
  void restart() { head_ = 0; }

 private:
  std::span<uint8_t> reserve_behind_end(uint32_t need, size_t frame_bytes, uint32_t used);

  uint8_t* memory_;
  uint32_t bytes_;
  uint32_t head_ = 0;
};

class FrameReader {
 public:
  FrameReader(uint8_t* memory, uint32_t bytes) : memory_(memory), bytes_(bytes) {}

  /// The oldest frame, when the writer is at `head`; empty when there is none. Where the contents of the ring are
  /// impossible, everything up to `head` is dropped, and counted in `damages`.
  std::span<const uint8_t> front(uint32_t head) {
    record_bytes_ = 0;
    uint32_t used = head - tail_;
    if (used == 0) return {};
    if (used > bytes_ || used % frame_ring::kAlignment != 0) return give_up(head);
    uint32_t offset = tail_ & (bytes_ - 1);
    uint32_t length = length_at(offset);
    if (length == frame_ring::kSkip) [[unlikely]] {
      const uint32_t to_end = bytes_ - offset;
      if (to_end > used) return give_up(head);
      tail_ += to_end;
      used -= to_end;
      if (used == 0) return {};
      offset = 0;
      length = length_at(offset);
    }
    if (length == 0 || length > kFrameBytesMax) return give_up(head);
    const uint32_t whole = frame_ring::record_bytes(length);
    if (whole > used || whole > bytes_ - offset) return give_up(head);
    record_bytes_ = whole;
    prefetch_next(offset + whole, used - whole);
    return {memory_ + offset + frame_ring::kHeaderBytes, length};
  }
  /// Does nothing when `front` was empty.
  void pop() {
    tail_ += record_bytes_;
    record_bytes_ = 0;
  }

  uint32_t tail() const { return tail_; }
  uint64_t damages() const { return damages_; }
  void restart() { tail_ = record_bytes_ = 0; }

 private:
  /// Prefetches what has been written behind the frame that is being read, which may be in another processor's cache;
  /// memory that is not written yet is left to its writer.
  void prefetch_next(uint32_t offset, uint32_t written) const {
    if (record_bytes_ < frame_ring::kNearBytes) {
      __builtin_prefetch(memory_ + ((offset + frame_ring::kNearBytes) & (bytes_ - 1)));
      return;
    }
    const uint32_t end = offset + std::min({written, frame_ring::kFarBytes, bytes_ - offset});
    for (uint32_t at = offset; at < end; at += 64) __builtin_prefetch(memory_ + at, 0, 2);
  }
  // Reads the word once, so that the value that is checked is the one that is used, whatever the peer writes meanwhile.
  uint32_t length_at(uint32_t offset) const {
    return frame_ring::word_at(memory_, offset).load(std::memory_order_relaxed);
  }
  std::span<const uint8_t> give_up(uint32_t head);

  uint8_t* memory_;
  uint32_t bytes_;
  uint32_t tail_ = 0;
  uint32_t record_bytes_ = 0;  // length of the record that `front` returned
  uint64_t damages_ = 0;
};

}  // namespace mqnic::card
