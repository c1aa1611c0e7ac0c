#include "capture_session.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "capture/pcapng_blocks.h"

namespace uroce::launcher {
namespace {

/// How long frames wait for earlier ones of other programs, which a busy machine may have kept from writing theirs.
constexpr Duration kOrderPatience = milliseconds(100);
constexpr Duration kLookAfter = milliseconds(500);
constexpr int kBusyWaitMs = 2;
constexpr int kIdleWaitMs = 20;
constexpr int kWriteMs = 20;
constexpr size_t kWriteBytes = 1 << 20;
constexpr size_t kStatisticsBytes = 64;

Instant time_of_day() { return TickClock::read().time; }

}  // namespace

CaptureSession::~CaptureSession() {
  for (const int fd : strangers_) close(fd);
}

bool CaptureSession::open(std::string& error) {
  if (!file_.open(options_.file, error) || !listener_.open(options_.pids.empty(), error)) return false;
  capture::append_section(file_.bytes());
  clock_.add(TickClock::read());
  if (options_.seconds > 0) end_ = time_of_day() + Duration{static_cast<int64_t>(options_.seconds * 1e9)};
  return true;
}

void CaptureSession::wait(bool busy) {
  std::vector<pollfd> entries{{listener_.fd(), POLLIN, 0}};
  for (const int fd : strangers_) entries.push_back({fd, POLLIN, 0});
  poll(entries.data(), entries.size(), busy ? kBusyWaitMs : kIdleWaitMs);
}

void CaptureSession::welcome() {
  if (const Instant now = time_of_day(); now >= next_look_) {
    next_look_ = now + kLookAfter;
    listener_.open_again();  // programs of a directory that was removed meet anew, and are asked anew
  }
  for (int fd = listener_.accept(); fd >= 0; fd = listener_.accept()) strangers_.push_back(fd);
  std::erase_if(strangers_, [&](int fd) {
    CaptureGuest guest;
    const Greeted greeted = read_greeting(fd, guest);
    if (greeted == Greeted::kYes) add(fd, guest);
    if (greeted == Greeted::kNo) close(fd);
    return greeted != Greeted::kNotYet;
  });
}

void CaptureSession::add(int fd, CaptureGuest& guest) {
  auto program = std::make_unique<CapturedProgram>(fd, guest.greeting, interfaces_);
  const bool good = program->map(guest.ring_fd, options_.keep_bytes);
  close(guest.ring_fd);
  if (!good) return;
  interfaces_++;
  capture::append_interface(file_.bytes(), program->name(), "uroce, port " + program->port());
  programs_.push_back(std::move(program));
}

/// Returns true when there was anything.
bool CaptureSession::take_all() {
  bool any = false;
  for (const auto& program : programs_) {
    program->is_gone();
    any = program->take(options_.once) || any;
  }
  return any;
}

std::string CaptureSession::comment(const CapturedProgram& program, const TakenFrame& frame) {
  std::span<const uint8_t> whole = frame.bytes;
  if (whole.size() < frame.original_bytes) {  // a frame that was cut still has its headers
    scratch_.assign(frame.bytes.begin(), frame.bytes.end());
    scratch_.resize(frame.original_bytes);
    whole = scratch_;
  }
  std::string text = comments_.describe(program.name(), frame.sent, frame.qpn, whole);
  if (frame.lost_before != 0) text += "; before this, " + std::to_string(frame.lost_before) + " packets were lost here";
  return text;
}

void CaptureSession::write_frame(CapturedProgram& program) {
  const TakenFrame& frame = program.waiting().front();
  const std::string text = comment(program, frame);
  const size_t room =
      capture::packet_block_bytes(frame.bytes.size(), text.size()) + kStatisticsBytes * programs_.size();
  file_full_ = file_full_ || (options_.max_bytes != 0 && file_.size() + room > options_.max_bytes);
  if (!file_full_) {
    capture::append_packet(file_.bytes(), {.interface = program.interface(),
                                           .time = clock_.time_of(frame.ticks),
                                           .inbound = !frame.sent,
                                           .frame = frame.bytes,
                                           .original_bytes = frame.original_bytes,
                                           .comment = text});
    packets_++;
  }
  program.pop();
}

/// Writes all frames that wait up to this tick, in order, and more of a program whose room is full. At most some
/// megabytes at once.
void CaptureSession::write_until(uint64_t last) {
  while (!file_full_ && file_.bytes().size() < kWriteBytes) {
    CapturedProgram* first = nullptr;
    bool full = false;
    for (const auto& program : programs_) {
      full = full || program->full();
      if (program->waiting().empty()) continue;
      if (first == nullptr || program->waiting().front().ticks < first->waiting().front().ticks) first = program.get();
    }
    if (first == nullptr || (!full && last < first->waiting().front().ticks)) return;
    write_frame(*first);
  }
}

void CaptureSession::part_with(const CapturedProgram& program) {
  lost_ += program.lost();
  capture::append_statistics(file_.bytes(), {.interface = program.interface(),
                                             .time = time_of_day(),
                                             .received = program.taken() + program.lost(),
                                             .dropped = program.lost()});
}

void CaptureSession::part_with_finished() {
  std::erase_if(programs_, [&](const auto& program) {
    if (program->broken())
      std::fprintf(stderr, "uroce: what %s gives is no capture; it is left out from here on\n",
                   program->name().c_str());
    const bool done = program->broken() || (program->finished() && program->waiting().empty());
    if (done) part_with(*program);
    return done;
  });
}

bool CaptureSession::ended(bool at_work) const {
  const bool over = reader_gone_ || file_full_ || time_of_day() >= end_;
  return over || (!at_work && !options_.pids.empty() && interfaces_ != 0 && programs_.empty());
}

CaptureFile::Flushed CaptureSession::work(const volatile sig_atomic_t& stop) {
  CaptureFile::Flushed flushed = CaptureFile::Flushed::kYes;
  for (bool busy = true; stop == 0 && !ended(busy) && flushed != CaptureFile::Flushed::kFailed;) {
    wait(busy);
    welcome();
    const TickClock::Reading now = TickClock::read();
    busy = take_all();
    clock_.add(now);
    if (const uint64_t patience = clock_.ticks_in(kOrderPatience); patience != 0) write_until(now.ticks - patience);
    part_with_finished();
    flushed = file_.flush(kWriteMs);
    reader_gone_ = flushed == CaptureFile::Flushed::kReaderIsGone;
  }
  return flushed;
}

/// The reader of a pipe is waited for, however slow it is, until it is gone or one more signal comes.
CaptureFile::Flushed CaptureSession::flush_all(const volatile sig_atomic_t& stop, sig_atomic_t signals) {
  CaptureFile::Flushed flushed = CaptureFile::Flushed::kYes;
  while (!file_.bytes().empty()) {
    flushed = file_.flush(kWriteMs);
    const bool goes_on = flushed == CaptureFile::Flushed::kYes || flushed == CaptureFile::Flushed::kPartly;
    if (!goes_on || (stop != signals && !file_.bytes().empty())) break;
  }
  return flushed;
}

CaptureFile::Flushed CaptureSession::write_rest(const volatile sig_atomic_t& stop) {
  const sig_atomic_t signals = stop;
  CaptureFile::Flushed flushed = CaptureFile::Flushed::kYes;
  take_all();
  clock_.add(TickClock::read());
  do {
    write_until(UINT64_MAX);
    if (file_.bytes().empty()) break;
    flushed = flush_all(stop, signals);
  } while (flushed == CaptureFile::Flushed::kYes);
  for (const auto& program : programs_) part_with(*program);
  return flushed == CaptureFile::Flushed::kYes ? flush_all(stop, signals) : flushed;
}

bool CaptureSession::run(const volatile sig_atomic_t& stop, std::string& error) {
  CaptureFile::Flushed flushed = work(stop);
  if (!reader_gone_ && flushed != CaptureFile::Flushed::kFailed) {
    flushed = write_rest(stop);
    reader_gone_ = flushed == CaptureFile::Flushed::kReaderIsGone;
  }
  if (flushed == CaptureFile::Flushed::kYes || flushed == CaptureFile::Flushed::kReaderIsGone) return true;
  error = flushed == CaptureFile::Flushed::kPartly
              ? "the reader of " + options_.file + " did not take the end: the last packet may be cut"
              : "cannot write " + options_.file + " any more: " + std::strerror(errno);
  return false;
}

std::string CaptureSession::summary() const {
  std::string text = std::to_string(packets_) + " packets of " + std::to_string(interfaces_) +
                     (interfaces_ == 1 ? " program, " : " programs, ") + std::to_string(lost_) + " lost";
  if (file_full_) text += "; the file is full";
  if (reader_gone_) text += "; its reader has ended";
  return text;
}

}  // namespace uroce::launcher
