#include "host/mappings.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace uroce {

namespace {

/// A mapping as the kernel describes it: [start, end).
struct Mapping {
  uint64_t start = 0;
  uint64_t end = 0;
  bool readable = false;
  bool writable = false;
};

/// /proc/self/maps, opened anew each time: a descriptor that is kept would show the parent's memory after fork.
class MapsFile {
 public:
  MapsFile() : fd_(open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}
  ~MapsFile() {
    if (fd_ >= 0) close(fd_);
  }
  MapsFile(const MapsFile&) = delete;
  MapsFile& operator=(const MapsFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

enum class Lookup : uint8_t { kFound, kNone, kCannotAsk };

/// The mapping that holds `address`, by PROCMAP_QUERY of Linux 6.11 (the headers here may be older).
class Query {
 public:
  explicit Query(const MapsFile& maps) : fd_(maps.fd()) {}

  Lookup find(uint64_t address, Mapping& out) const {
    struct Request {
      uint64_t size, flags, address;
      uint64_t start, end, rights, page_size, offset, inode;
      uint32_t major, minor, name_size, build_id_size;
      uint64_t name, build_id;
    } request{};
    static_assert(sizeof(Request) == 104);
    constexpr unsigned long kProcmapQuery = _IOWR('f', 17, Request);
    request.size = sizeof request;
    request.address = address;
    if (ioctl(fd_, kProcmapQuery, &request) != 0) return errno == ENOENT ? Lookup::kNone : Lookup::kCannotAsk;
    out = {request.start, request.end, (request.rights & 1) != 0, (request.rights & 2) != 0};
    return Lookup::kFound;
  }

 private:
  int fd_;
};

/// The same from the text, which is sorted by address; so addresses must be looked up in rising order.
class Text {
 public:
  explicit Text(const MapsFile& maps) : fd_(maps.fd()) {}

  Lookup find(uint64_t address, Mapping& out) {
    while (current_.end <= address) {
      if (!next_line()) return fd_ < 0 || !any_ ? Lookup::kCannotAsk : Lookup::kNone;
    }
    if (address < current_.start) return Lookup::kNone;
    out = current_;
    return Lookup::kFound;
  }

 private:
  bool next_line() {
    char* newline;
    while ((newline = static_cast<char*>(std::memchr(text_ + at_, '\n', used_ - at_))) == nullptr) {
      std::memmove(text_, text_ + at_, used_ - at_);
      used_ -= at_;
      at_ = 0;
      const ssize_t n = read(fd_, text_ + used_, sizeof text_ - used_);
      if (n <= 0) return false;
      used_ += static_cast<size_t>(n);
    }
    *newline = '\0';
    char rights[5] = {};
    unsigned long start = 0;
    unsigned long end = 0;
    if (std::sscanf(text_ + at_, "%lx-%lx %4s", &start, &end, rights) != 3) return false;
    current_ = {start, end, rights[0] == 'r', rights[1] == 'w'};
    any_ = true;
    at_ = static_cast<size_t>(newline + 1 - text_);
    return true;
  }

  int fd_;
  Mapping current_;
  bool any_ = false;
  size_t at_ = 0;
  size_t used_ = 0;
  char text_[8192];  // a line ends with a path of up to 4096 bytes
};

/// Returns false when the kernel does not tell.
template <typename Source>
bool walk(Source&& source, uint64_t at, uint64_t end, Need need, RangeAnswer& answer) {
  while (at < end) {
    Mapping mapping;
    const Lookup lookup = source.find(at, mapping);
    if (lookup == Lookup::kCannotAsk) return false;
    answer.at = at;
    answer.state = lookup == Lookup::kNone                     ? RangeState::kNotMapped
                   : !mapping.readable                         ? RangeState::kNotReadable
                   : need == Need::kWrite && !mapping.writable ? RangeState::kNotWritable
                                                               : RangeState::kUsable;
    if (answer.state != RangeState::kUsable) return true;
    at = mapping.end;
  }
  return true;
}

}  // namespace

RangeAnswer check_range(const void* start, uint64_t bytes, Need need, MapsInterface first) {
  RangeAnswer answer;
  const auto at = reinterpret_cast<uint64_t>(start);
  const MapsFile maps;
  if (first == MapsInterface::kQuery && walk(Query(maps), at, at + bytes, need, answer)) return answer;
  if (walk(Text(maps), at, at + bytes, need, answer)) return answer;
  // Without /proc: the call below changes nothing, and fails with ENOMEM where a page is not mapped.
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t first_page = at & ~(page - 1);
  const bool mapped = msync(reinterpret_cast<void*>(first_page), at + bytes - first_page, MS_ASYNC) == 0;
  return mapped ? RangeAnswer{} : RangeAnswer{RangeState::kNotMapped, at};
}

}  // namespace uroce
