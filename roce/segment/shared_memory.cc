#include "segment/shared_memory.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace uroce::segment {
namespace {

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

}  // namespace

bool OwnMemory::make(const char* name, size_t bytes, std::string& error) {
  fd_ = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(bytes)) != 0) {
    error = std::string("the kernel gives no shared memory: ") + std::strerror(errno) +
            (errno == EMFILE ? "; raise ulimit -n" : "");
    return false;
  }
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (data == MAP_FAILED) {
    error = "cannot map " + std::to_string(bytes) + " bytes of shared memory: " + std::strerror(errno) +
            "; is there a limit of address space (ulimit -v)?";
    return false;
  }
  data_ = data;
  bytes_ = bytes;
  // A child of a fork must not write to what its parent's peers read.
  madvise(data, bytes, MADV_DONTFORK);
  // Kernels before 5.1 do not know the seal against later writers; there the descriptor is passed on without it.
  if (fcntl(fd_, F_ADD_SEALS, kSizeSeals | F_SEAL_FUTURE_WRITE) == 0 || fcntl(fd_, F_ADD_SEALS, kSizeSeals) == 0)
    return true;
  error = std::string("cannot seal shared memory: ") + std::strerror(errno);
  return false;
}

OwnMemory::~OwnMemory() {
  close_fd();
  if (data_ != nullptr) munmap(data_, bytes_);
}

OwnMemory::OwnMemory(OwnMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_), fd_(std::exchange(other.fd_, -1)) {}

OwnMemory& OwnMemory::operator=(OwnMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(fd_, other.fd_);
  return *this;
}

void OwnMemory::close_fd() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

void OwnMemory::forget() {
  close_fd();
  data_ = nullptr;  // not mapped here
}

bool PeerMemory::map(int fd, size_t bytes) {
  struct stat st {};
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals) return false;
  if (fstat(fd, &st) != 0 || st.st_size != static_cast<off_t>(bytes)) return false;
  void* const data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return false;
  madvise(data, bytes, MADV_DONTFORK);
  data_ = data;
  bytes_ = bytes;
  return true;
}

PeerMemory::~PeerMemory() {
  if (data_ != nullptr) munmap(const_cast<void*>(data_), bytes_);
}

PeerMemory::PeerMemory(PeerMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

PeerMemory& PeerMemory::operator=(PeerMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace uroce::segment
