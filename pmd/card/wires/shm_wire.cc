#include "pmd/card/wires/shm_wire.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "pmd/card/wires/runtime_file.h"

namespace mqnic::card {
namespace {

constexpr uint32_t kMagic = 0x65726977;  // "wire"
constexpr uint32_t kLayout = 1;          // to be increased when ShmWireMemory changes
constexpr uint32_t kRingBytes = 1u << 20;
constexpr unsigned kGate = 2;  // locked while a user comes or goes; bytes 0 and 1 are for the ends
constexpr uint64_t kLookIntervalNs = 2'000'000;

}  // namespace

struct ShmWireMemory {
  // Each word has cache lines of its own, because one end writes it and the other reads it; two lines, because
  // processors fetch pairs.
  struct alignas(128) Word {
    std::atomic<uint64_t> value;  // tag in the upper half
  };
  struct alignas(128) End {
    std::atomic<uint32_t> number;  // of its user, counted over both ends; 0: nobody came yet, or the user left properly
    std::atomic<int32_t> pid;      // for messages only
  };
  uint32_t magic;
  uint32_t layout;
  std::atomic<uint32_t> users;  // how many came so far; protected by the gate
  End ends[2];
  Word head[2];  // position in the ring that this end writes
  Word tail[2];  // position in the ring that this end reads
  alignas(4096) uint8_t rings[2][kRingBytes];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

namespace {

constexpr size_t kFileBytes = sizeof(ShmWireMemory);

constexpr uint64_t word(uint32_t tag, uint32_t position) { return uint64_t{tag} << 32 | position; }
constexpr uint32_t tag_of(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
constexpr uint32_t position_of(uint64_t word) { return static_cast<uint32_t>(word); }

bool is_private_file(int fd) {
  struct stat st {};
  return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_nlink <= 1 &&
         (st.st_mode & 077) == 0;
}

/// True when the file that was opened still has its name, that is, was not removed in between.
bool is_current(int fd, const std::string& path) {
  struct stat ours {};
  struct stat named {};
  return fstat(fd, &ours) == 0 && lstat(path.c_str(), &named) == 0 && ours.st_ino == named.st_ino &&
         ours.st_dev == named.st_dev;
}

/// Opens the file and takes its gate.
int open_gate(const std::string& path, std::string& error) {
  for (int tries = 0; tries < 100; tries++) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
      error = "cannot open " + path + ": " + std::strerror(errno);
      return -1;
    }
    if (!is_private_file(fd) && is_current(fd, path)) {
      error = path + " is not a file of this user alone: remove it";
      close(fd);
      return -1;
    }
    const int result = lock_byte(fd, kGate, true);
    if (result == 0 && is_current(fd, path)) return fd;
    close(fd);
    if (result != 0) {
      error = "cannot lock " + path + ": " + std::strerror(-result);
      return -1;
    }
  }
  error = path + " is removed by others as fast as it is made";
  return -1;
}

std::string users_of(int fd) {
  std::string text;
  for (unsigned end = 0; end < 2; end++) {
    int32_t pid = 0;
    const auto at = static_cast<off_t>(offsetof(ShmWireMemory, ends) + end * sizeof(ShmWireMemory::End) +
                                       offsetof(ShmWireMemory::End, pid));
    if (pread(fd, &pid, sizeof pid, at) != sizeof pid) pid = 0;
    text += (end == 0 ? "" : " and ") + std::to_string(pid);
  }
  return text;
}

/// Empties the file and allocates all its memory, so that no write into the mapping can fail.
std::string make_file(int fd, const std::string& name) {
  const int result = ftruncate(fd, 0) != 0 ? errno : posix_fallocate(fd, 0, kFileBytes);
  if (result != 0) {
    return "wire shm:" + name + " needs " + std::to_string(kFileBytes >> 10) +
           " KiB in the runtime directory: " + std::strerror(result);
  }
  const uint32_t head[] = {kMagic, kLayout};
  return pwrite(fd, head, sizeof head, 0) == sizeof head ? "" : "wire shm:" + name + ": " + std::strerror(errno);
}

std::string check_file(int fd, const std::string& name) {
  uint32_t head[2] = {};
  struct stat st {};
  const bool good = fstat(fd, &st) == 0 && st.st_size == static_cast<off_t>(kFileBytes) &&
                    pread(fd, head, sizeof head, 0) == sizeof head && head[0] == kMagic && head[1] == kLayout;
  return good ? "" : "wire shm:" + name + " is in use by another version of this program: choose another name";
}

}  // namespace

std::string ShmWire::prepare(int fd, const std::string& name, unsigned& end) {
  const bool taken[2] = {byte_is_locked(fd, 0), byte_is_locked(fd, 1)};
  if (taken[0] && taken[1]) {
    return "wire shm:" + name + " has both ends in use, by processes " + users_of(fd) +
           ": stop one of them, or choose another name";
  }
  end = taken[0] ? 1 : 0;
  return taken[0] || taken[1] ? check_file(fd, name) : make_file(fd, name);
}

std::unique_ptr<Wire> ShmWire::open(const std::string& name, std::string& error) {
  if (!good_file_name(name)) {
    error = "wire shm:" + name + ": a name has at most 64 letters, digits and -_.";
    return nullptr;
  }
  const std::string directory = runtime_directory(error);
  if (directory.empty()) return nullptr;
  const std::string path = directory + "/" + name + ".wire";
  const int fd = open_gate(path, error);
  if (fd < 0) return nullptr;

  unsigned end = 0;
  error = prepare(fd, name, end);
  void* memory = MAP_FAILED;
  if (error.empty()) {
    memory = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) error = "cannot map " + path + ": " + std::strerror(errno);
  }
  if (!error.empty()) {
    close(fd);
    return nullptr;
  }
  std::unique_ptr<ShmWire> wire(new ShmWire(path, fd, end, static_cast<ShmWireMemory*>(memory)));
  unlock_byte(fd, kGate);
  return wire;
}

ShmWire::ShmWire(std::string path, int fd, unsigned end, ShmWireMemory* memory)
    : path_(std::move(path)),
      fd_(fd),
      end_(end),
      memory_(memory),
      writer_(memory->rings[end], kRingBytes),
      reader_(memory->rings[1 - end], kRingBytes),
      own_number_(memory->users.load() + 1),
      scrap_(kFrameBytesMax) {
  memory_->users.store(own_number_);
  memory_->ends[end_].pid.store(getpid());
  memory_->ends[end_].number.store(own_number_);
  meet(memory_->ends[1 - end_].number.load());
  lock_byte(fd_, end_, false);  // it is free, because nobody else has the gate
  look_for_peer();
}

ShmWire::~ShmWire() {
  memory_->ends[end_].number.store(0);
  munmap(memory_, kFileBytes);  // before the lock is released, because the next user may truncate the file
  lock_byte(fd_, kGate, true);
  unlock_byte(fd_, end_);
  if (!byte_is_locked(fd_, 1 - end_) && is_current(fd_, path_)) unlink(path_.c_str());
  close(fd_);
}

/// Begins anew with this peer and with empty rings.
void ShmWire::meet(uint32_t peer_number) {
  peer_number_ = peer_number;
  tag_ = std::max(own_number_, peer_number);
  writer_.restart();
  reader_.restart();
  peer_tail_ = peer_head_ = published_head_ = published_tail_ = 0;
  matched_ = false;
  memory_->head[end_].value.store(word(tag_, 0), std::memory_order_release);
  memory_->tail[end_].value.store(word(tag_, 0), std::memory_order_release);
}

void ShmWire::look_for_peer() {
  present_ = memory_->ends[1 - end_].number.load(std::memory_order_relaxed) != 0 && byte_is_locked(fd_, 1 - end_);
}

void ShmWire::read_peer_tail() {
  const uint64_t tail = memory_->tail[1 - end_].value.load(std::memory_order_acquire);
  if (tag_of(tail) != tag_) return;
  matched_ = true;
  peer_tail_ = position_of(tail);
}

std::span<uint8_t> ShmWire::reserve(size_t bytes) {
  lost_ = !connected();
  if (lost_) return bytes <= scrap_.size() ? std::span(scrap_.data(), bytes) : std::span<uint8_t>();
  const std::span<uint8_t> room = writer_.reserve(bytes, peer_tail_);
  if (!room.empty()) return room;
  read_peer_tail();
  return writer_.reserve(bytes, peer_tail_);
}

void ShmWire::commit(size_t bytes) {
  if (!lost_) writer_.commit(bytes);
}

std::span<const uint8_t> ShmWire::front() {
  if (reader_.tail() == peer_head_) {
    const uint64_t head = memory_->head[1 - end_].value.load(std::memory_order_acquire);
    if (tag_of(head) != tag_) return {};
    peer_head_ = position_of(head);
  }
  const std::span<const uint8_t> frame = reader_.front(peer_head_);
  if (frame.empty()) peer_head_ = reader_.tail();  // everything was read, or the contents were impossible
  return frame;
}

std::string ShmWire::take_message() {
  if (reader_.damages() == told_damages_) return {};
  told_damages_ = reader_.damages();
  return "what the other end writes to " + path_ + " makes no sense (" + std::to_string(told_damages_) +
         " times so far); what it sent then is lost";
}

void ShmWire::flush(uint64_t now_ns) {
  const uint32_t peer_number = memory_->ends[1 - end_].number.load(std::memory_order_acquire);
  if (peer_number != peer_number_) {
    // A peer that left properly may have left frames in the ring, which are still delivered.
    if (peer_number != 0) meet(peer_number);
    peer_number_ = peer_number;
    look_for_peer();
  } else if (now_ns >= next_look_ns_) {
    look_for_peer();
    next_look_ns_ = now_ns + kLookIntervalNs;
  }
  if (!matched_) read_peer_tail();

  if (writer_.head() != published_head_) {
    published_head_ = writer_.head();
    memory_->head[end_].value.store(word(tag_, published_head_), std::memory_order_release);
  }
  if (reader_.tail() != published_tail_) {
    published_tail_ = reader_.tail();
    memory_->tail[end_].value.store(word(tag_, published_tail_), std::memory_order_release);
  }
}

}  // namespace mqnic::card
