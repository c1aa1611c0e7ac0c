// `uroce capture` at work: programs come and go, and what they send and receive becomes one file, in the order of time.
#pragma once

#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture_file.h"
#include "captured_program.h"
#include "host/capture_meeting.h"
#include "packet_comments.h"
#include "tick_clock.h"

namespace uroce::launcher {

struct CaptureOptions {
  std::string file;
  std::vector<int> pids;    // empty: all programs
  double seconds = 0;       // 0: until a signal
  uint64_t max_bytes = 0;   // of the file; 0: any
  uint32_t keep_bytes = 0;  // of each frame; 0: all
  bool once = false;        // only frames that are sent
};

class CaptureSession {
 public:
  explicit CaptureSession(const CaptureOptions& options) : options_(options) {}
  ~CaptureSession();
  CaptureSession(const CaptureSession&) = delete;
  CaptureSession& operator=(const CaptureSession&) = delete;

  /// Returns false, with one line in `error`, when it cannot begin. From then on programs can join.
  bool open(std::string& error);
  /// The name of the capture, which programs are to be told.
  const std::string& name() const { return listener_.name(); }

  /// Runs until `stop` is set, time or room are over, the reader of the pipe is gone, or, where programs were chosen,
  /// all of them ended; then until everything is written, or `stop` changes once more. Returns false, with one line in
  /// `error`, when not everything was written.
  bool run(const volatile sig_atomic_t& stop, std::string& error);
  /// How it ended, in one line.
  std::string summary() const;

 private:
  void wait(bool busy);
  void welcome();
  void add(int fd, CaptureGuest& guest);
  bool take_all();
  void write_until(uint64_t last);
  std::string comment(const CapturedProgram& program, const TakenFrame& frame);
  void write_frame(CapturedProgram& program);
  void part_with_finished();
  void part_with(const CapturedProgram& program);
  CaptureFile::Flushed work(const volatile sig_atomic_t& stop);
  CaptureFile::Flushed flush_all(const volatile sig_atomic_t& stop, sig_atomic_t signals);
  CaptureFile::Flushed write_rest(const volatile sig_atomic_t& stop);
  bool ended(bool at_work) const;

  const CaptureOptions options_;
  CaptureListener listener_;
  CaptureFile file_;
  TickClock clock_;
  PacketComments comments_;
  std::vector<uint8_t> scratch_;
  std::vector<int> strangers_;  // connections that have not sent a greeting yet
  std::vector<std::unique_ptr<CapturedProgram>> programs_;
  Instant next_look_{0};
  Instant end_{INT64_MAX};
  bool file_full_ = false;
  bool reader_gone_ = false;
  uint32_t interfaces_ = 0;
  uint64_t packets_ = 0;
  uint64_t lost_ = 0;  // of programs that ended
};

}  // namespace uroce::launcher
