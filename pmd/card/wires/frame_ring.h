// A ring of bytes with frames packed one after the other, and its two users: a writer and a reader. They share the
// memory; their owner decides how they tell each other their positions.
//
// Positions count bytes and run freely. A record is a word with the frame's length, a word that is not used, and the
// frame, rounded up to 16 bytes. A frame never wraps around: a record of length kSkip fills the end of the ring.
//
// The reader does not trust the memory: the peer may write anything at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mqnic::card {

/// The longest frame that a wire carries. The card's own limit is 9214.
inline constexpr size_t kFrameBytesMax = 10240 - 64;

class FrameWriter {
 public:
  /// `bytes` is a power of two, and several times kFrameBytesMax.
  FrameWriter(uint8_t* memory, uint32_t bytes) : memory_(memory), bytes_(bytes) {}

  /// Room for a frame of up to `frame_bytes`, when the reader is at `tail`. Empty when there is no room now, or when
  /// the frame is too long. An impossible tail leaves no room.
  std::span<uint8_t> reserve(size_t frame_bytes, uint32_t tail);
  /// `frame_bytes` is at most what was reserved.
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

  /// The oldest frame, when the writer is at `head`; empty when there is none. Where the contents of the ring are
  /// impossible, everything up to `head` is dropped, and counted in `damages`.
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
  uint32_t record_bytes_ = 0;  // length of the record that `front` returned
  uint64_t damages_ = 0;
};

}  // namespace mqnic::card
