// One program whose frames `uroce capture` takes: those that it has written and that are not in the file yet.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "host/capture_meeting.h"
#include "host/capture_ring.h"

namespace uroce::launcher {

/// A frame that was taken out of the program's memory.
struct TakenFrame {
  uint64_t ticks = 0;
  bool sent = false;
  uint32_t qpn = 0;
  uint32_t original_bytes = 0;
  uint32_t lost_before = 0;
  std::vector<uint8_t> bytes;
};

class CapturedProgram {
 public:
  /// Takes over the connection. `interface`: its number in the file.
  CapturedProgram(int fd, const CaptureGreeting& greeting, uint32_t interface);
  ~CapturedProgram();
  CapturedProgram(const CapturedProgram&) = delete;
  CapturedProgram& operator=(const CapturedProgram&) = delete;

  /// Maps the program's memory; `keep_bytes` of each frame, 0: all. False when that is not such memory.
  bool map(int ring_fd, uint32_t keep_bytes);
  /// "ib_write_bw[1234]".
  const std::string& name() const { return name_; }
  const std::string& port() const { return port_; }
  uint32_t interface() const { return interface_; }
  int fd() const { return fd_; }

  /// Takes frames until there are no more now, or it is full. Those that were received are left out when `sent_only`.
  /// Returns true when there were any.
  bool take(bool sent_only);
  /// To be asked before `take`: true when the program has ended, so that nothing more will come.
  bool is_gone();
  /// True when it has ended, and all that it wrote was taken.
  bool finished() const { return gone_ && drained_; }
  /// Frames that wait to be written out, the oldest first.
  std::deque<TakenFrame>& waiting() { return waiting_; }
  void pop();
  /// No more frames can wait: better to write them out too early, and perhaps out of order, than to lose any.
  bool full() const { return waiting_bytes_ >= kWaitingBytes; }
  /// True when its memory has something in it that no program writes.
  bool broken() const { return reader_.broken(); }

  uint64_t taken() const { return taken_; }
  uint64_t lost() const { return reader_.lost(); }

 private:
  static constexpr size_t kWaitingBytes = 64 << 20;

  const int fd_;
  const std::string name_;
  const std::string port_;
  const uint32_t interface_;
  CaptureRingReader reader_;
  std::deque<TakenFrame> waiting_;
  size_t waiting_bytes_ = 0;
  uint64_t taken_ = 0;
  bool gone_ = false;
  bool drained_ = false;
};

}  // namespace uroce::launcher
