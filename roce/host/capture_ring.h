// Memory in which a program hands the frames that it sends and receives to `uroce capture`.
//
// The program makes it and writes; `uroce capture` reads. Neither waits for the other: what finds no room is lost and
// counted. What was written can still be read when the program is gone. The size is sealed, so that neither side can
// take the memory away from under the other. The reader trusts nothing that it finds in it.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace uroce {

struct CapturedFrame {
  uint64_t ticks = 0;  // of the processor's time stamp counter, which all programs have in common
  bool sent = false;
  uint32_t qpn = 0;             // of the local queue pair that sent it; 0: not known
  uint32_t original_bytes = 0;  // `bytes` may be its beginning only
  uint32_t lost_before = 0;     // frames that had no room just before this one
  std::span<const uint8_t> bytes;
};

/// As both sides map it.
struct CaptureMemory {
  static constexpr uint64_t kBytes = 16 << 20;

  // Written by the program.
  alignas(64) std::atomic<uint64_t> written;  // bytes since the beginning
  std::atomic<uint64_t> frames;               // those that were lost included
  std::atomic<uint64_t> lost;
  // Written by the reader.
  alignas(64) std::atomic<uint64_t> read;
  std::atomic<uint32_t> keep_bytes;  // of each frame; 0: all
  alignas(4096) uint8_t ring[kBytes];
};

/// The program's side. One thread at a time.
class CaptureRing {
 public:
  CaptureRing() = default;
  ~CaptureRing();
  CaptureRing(const CaptureRing&) = delete;
  CaptureRing& operator=(const CaptureRing&) = delete;

  /// Returns false, with one line in `error`, when the kernel does not give the memory.
  bool make(std::string& error);
  /// To be passed on; stays the ring's.
  int fd() const { return fd_; }
  /// Never waits and never allocates. False: there was no room.
  bool push(const CapturedFrame& frame);
  /// In the child of a fork: the memory is the parent's.
  void forget();

 private:
  CaptureMemory* memory_ = nullptr;
  int fd_ = -1;
  uint64_t written_ = 0;
  uint32_t lost_before_ = 0;
};

/// The side of `uroce capture`.
class CaptureRingReader {
 public:
  CaptureRingReader() = default;
  ~CaptureRingReader();
  CaptureRingReader(const CaptureRingReader&) = delete;
  CaptureRingReader& operator=(const CaptureRingReader&) = delete;

  /// Maps `fd`, which stays the caller's. False when that is not such memory.
  bool map(int fd);
  /// Asks for the first bytes of each frame only; 0: all.
  void keep(uint32_t bytes) { memory_->keep_bytes.store(keep_ = bytes, std::memory_order_relaxed); }
  /// Takes the next frame, which is valid until the next call. False when there is none now.
  bool next(CapturedFrame& frame);
  /// What the program counted.
  uint64_t frames() const { return memory_->frames.load(std::memory_order_relaxed); }
  uint64_t lost() const { return memory_->lost.load(std::memory_order_relaxed); }
  /// Something was found that no program writes; there is nothing to be read any more.
  bool broken() const { return broken_; }

 private:
  CaptureMemory* memory_ = nullptr;
  uint64_t read_ = 0;   // the beginning of the frame that `next` returned last
  uint64_t after_ = 0;  // its end
  uint32_t keep_ = 0;
  bool broken_ = false;
};

}  // namespace uroce
