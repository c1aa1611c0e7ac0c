#include "captured_program.h"

#include <unistd.h>

#include "base/printable.h"

namespace uroce::launcher {

CapturedProgram::CapturedProgram(int fd, const CaptureGreeting& greeting, uint32_t interface)
    : fd_(fd),
      name_(printable(greeting.program) + "[" + std::to_string(greeting.pid) + "]"),
      port_(printable(greeting.port)),
      interface_(interface) {}

CapturedProgram::~CapturedProgram() { close(fd_); }

bool CapturedProgram::map(int ring_fd, uint32_t keep_bytes) {
  if (!reader_.map(ring_fd)) return false;
  reader_.keep(keep_bytes);
  return true;
}

bool CapturedProgram::is_gone() {
  gone_ = gone_ || is_closed(fd_);
  return gone_;
}

bool CapturedProgram::take(bool sent_only) {
  CapturedFrame frame;
  bool any = false;
  while (!full() && reader_.next(frame)) {
    any = true;
    if (sent_only && !frame.sent) continue;
    TakenFrame taken{frame.ticks, frame.sent, frame.qpn, frame.original_bytes, frame.lost_before, {}};
    taken.bytes.assign(frame.bytes.begin(), frame.bytes.end());
    waiting_bytes_ += taken.bytes.size() + sizeof taken;
    waiting_.push_back(std::move(taken));
    taken_++;
  }
  drained_ = !full();
  return any;
}

void CapturedProgram::pop() {
  waiting_bytes_ -= waiting_.front().bytes.size() + sizeof(TakenFrame);
  waiting_.pop_front();
}

}  // namespace uroce::launcher
