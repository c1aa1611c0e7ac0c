#include "host/capture_ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace uroce {
namespace {

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

/// Stands before each frame.
struct FrameHead {
  uint32_t bytes = 0;  // that follow; kToTheStart: nothing does, the next head is at the ring's beginning
  uint32_t original_bytes = 0;
  uint64_t ticks = 0;
  uint32_t qpn = 0;
  uint32_t lost_before = 0;
  uint32_t sent = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(FrameHead) == 32);

constexpr uint32_t kToTheStart = UINT32_MAX;
constexpr uint32_t kFrameBytesMax = 65536;
constexpr int kCaptureSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// Of a frame in the ring. A head always fits before the ring's end, since the ring is a multiple of it.
constexpr uint64_t room_for(uint32_t bytes) {
  return sizeof(FrameHead) + (uint64_t{bytes} + sizeof(FrameHead) - 1) / sizeof(FrameHead) * sizeof(FrameHead);
}

}  // namespace

bool CaptureRing::make(std::string& error) {
  fd_ = memfd_create("uroce-capture", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd_ < 0 || ftruncate(fd_, sizeof(CaptureMemory)) != 0 || fcntl(fd_, F_ADD_SEALS, kCaptureSizeSeals) != 0) {
    error = std::string("the kernel gives no shared memory: ") + std::strerror(errno);
    return false;
  }
  // All pages now: later, a missing one would have to be waited for between two packets.
  void* const data = mmap(nullptr, sizeof(CaptureMemory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, 0);
  if (data == MAP_FAILED) {
    error = std::string("cannot map shared memory: ") + std::strerror(errno);
    return false;
  }
  madvise(data, sizeof(CaptureMemory), MADV_DONTFORK);
  memory_ = static_cast<CaptureMemory*>(data);
  return true;
}

CaptureRing::~CaptureRing() {
  if (fd_ >= 0) close(fd_);
  if (memory_ != nullptr) munmap(memory_, sizeof(CaptureMemory));
}

void CaptureRing::forget() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
  memory_ = nullptr;  // not mapped here
}

bool CaptureRing::push(const CapturedFrame& frame) {
  CaptureMemory& memory = *memory_;
  const uint32_t keep = memory.keep_bytes.load(std::memory_order_relaxed);
  const auto original = static_cast<uint32_t>(frame.bytes.size());
  const uint32_t bytes = keep == 0 ? original : std::min(original, keep);
  const uint64_t room = room_for(bytes);
  const uint64_t offset = written_ % CaptureMemory::kBytes;
  const uint64_t skipped = offset + room > CaptureMemory::kBytes ? CaptureMemory::kBytes - offset : 0;
  const uint64_t used = written_ - memory.read.load(std::memory_order_acquire);
  memory.frames.store(memory.frames.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (original > kFrameBytesMax || used > CaptureMemory::kBytes || CaptureMemory::kBytes - used < skipped + room) {
    memory.lost.store(memory.lost.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    lost_before_++;
    return false;
  }
  if (skipped != 0) std::memcpy(memory.ring + offset, &kToTheStart, sizeof kToTheStart);
  uint8_t* const at = memory.ring + (written_ + skipped) % CaptureMemory::kBytes;
  const FrameHead head{bytes,      original,      frame.ticks, frame.qpn, std::exchange(lost_before_, 0),
                       frame.sent, /*reserved=*/0};
  std::memcpy(at, &head, sizeof head);
  if (bytes != 0) std::memcpy(at + sizeof head, frame.bytes.data(), bytes);
  written_ += skipped + room;
  memory.written.store(written_, std::memory_order_release);
  return true;
}

bool CaptureRingReader::map(int fd) {
  struct stat st {};
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kCaptureSizeSeals) != kCaptureSizeSeals) return false;
  if (fstat(fd, &st) != 0 || st.st_size != static_cast<off_t>(sizeof(CaptureMemory))) return false;
  void* const data = mmap(nullptr, sizeof(CaptureMemory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return false;
  memory_ = static_cast<CaptureMemory*>(data);
  return true;
}

CaptureRingReader::~CaptureRingReader() {
  if (memory_ != nullptr) munmap(memory_, sizeof(CaptureMemory));
}

bool CaptureRingReader::next(CapturedFrame& frame) {
  if (broken_) return false;
  if (read_ != after_) memory_->read.store(read_ = after_, std::memory_order_release);
  const uint64_t there = memory_->written.load(std::memory_order_acquire) - read_;
  if (there == 0) return false;
  broken_ = true;  // until all is found to be good
  const uint64_t offset = read_ % CaptureMemory::kBytes;
  FrameHead head;
  std::memcpy(&head, memory_->ring + offset, sizeof head);
  uint64_t start = offset;
  uint64_t skipped = 0;
  if (head.bytes == kToTheStart) {
    skipped = CaptureMemory::kBytes - offset;
    start = 0;
    std::memcpy(&head, memory_->ring, sizeof head);
  }
  const bool good_head = head.bytes <= head.original_bytes && head.original_bytes <= kFrameBytesMax;
  if (there > CaptureMemory::kBytes || !good_head) return false;
  const uint64_t room = room_for(head.bytes);
  if (skipped + room > there || start + room > CaptureMemory::kBytes) return false;
  broken_ = false;
  // Frames that were written before this was asked for are whole.
  const uint32_t bytes = keep_ == 0 ? head.bytes : std::min(head.bytes, keep_);
  after_ = read_ + skipped + room;
  frame = {head.ticks,          head.sent != 0,   head.qpn,
           head.original_bytes, head.lost_before, {memory_->ring + start + sizeof head, bytes}};
  return true;
}

}  // namespace uroce
