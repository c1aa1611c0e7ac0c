// Frames packed one behind the other in a ring of bytes, and the two who use it: one writes, one reads. They share the
// memory; how they tell each other how far they are is left to their owner.
//
// Positions count bytes and run freely. A record is a word with the frame's length, a word that is not used, and the
// frame, rounded up to 16 bytes. A frame never wraps around: a record of length kSkip fills the end of the ring.
//
// The reader does not trust the memory: whoever is at the other end may write anything at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mqnic::card {

/// The longest frame that a wire carries. The card's own limit is 9214.
inline constexpr size_t kFrameBytesMax = 10240 - 64;

class FrameWriter {
 public:
  /// `bytes`: a power of two, some times kFrameBytesMax.
  FrameWriter(uint8_t* memory, uint32_t bytes) : memory_(memory), bytes_(bytes) {}

  /// Room for a frame of up to `frame_bytes`, given that the reader is at `tail`. Empty: not now, or never for a frame
  /// that is too long. A tail that makes no sense leaves no room.
  std::span<uint8_t> reserve(size_t frame_bytes, uint32_t tail);
  /// At most what was reserved.
  void commit(size_t frame_bytes);

  uint32_t head() const { return head_; }
  void restart() { head_ = 0; }

 private:
  uint8_t* memory_;
  uint32_t bytes_;
  uint32_t head_ = 0;
};

class FrameReader {
 public:
  FrameReader(uint8_t* memory, uint32_t bytes) : memory_(memory), bytes_(bytes) {}

  /// The oldest frame, given that the writer is at `head`; empty: there is none. Where the ring makes no sense,
  /// everything up to `head` is thrown away and counted in `damages`.
  std::span<const uint8_t> front(uint32_t head);
  /// Does nothing when `front` was empty.
  void pop();

  uint32_t tail() const { return tail_; }
  uint64_t damages() const { return damages_; }
  void restart() { tail_ = record_bytes_ = 0; }

 private:
  uint32_t length_at(uint32_t offset) const;
  std::span<const uint8_t> give_up(uint32_t head);

  uint8_t* memory_;
  uint32_t bytes_;
  uint32_t tail_ = 0;
  uint32_t record_bytes_ = 0;  // of the record that `front` showed
  uint64_t damages_ = 0;
};

}  // namespace mqnic::card
