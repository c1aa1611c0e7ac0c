#include "mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace uroce::apps {

MappedFile::MappedFile(const std::string& path) {
  const bool standard_input = path == "-";
  const int fd = standard_input ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    error_ = std::strerror(errno);
    return;
  }
  struct stat info {};
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 && !standard_input) {
    const auto bytes = static_cast<size_t>(info.st_size);
    void* const map = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map != MAP_FAILED) {
      madvise(map, bytes, MADV_SEQUENTIAL);
      map_ = map;
      bytes_ = {static_cast<const uint8_t*>(map), bytes};
    }
  }
  if (map_ == nullptr) read_all(fd);
  if (!standard_input) close(fd);
}

MappedFile::~MappedFile() {
  if (map_ != nullptr) munmap(map_, bytes_.size());
}

void MappedFile::read_all(int fd) {
  constexpr size_t kStep = 1 << 20;
  for (size_t used = 0;;) {
    buffer_.resize(used + kStep);
    const ssize_t n = read(fd, buffer_.data() + used, kStep);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) error_ = std::strerror(errno);
    if (n <= 0) {
      buffer_.resize(used);
      break;
    }
    used += static_cast<size_t>(n);
  }
  bytes_ = buffer_;
}

}  // namespace uroce::apps
