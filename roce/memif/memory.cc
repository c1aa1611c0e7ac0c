#include "memif/memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace uroce::memif {

std::string Memory::add(int fd, uint64_t bytes) {
  // The seal is checked before the length: once sealed, the file can only grow.
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return "region is not sealed against shrinking";
  // A file of huge pages is refused, because there may be no page left when a hole in it is first accessed.
  struct statfs system {};
  if (fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC) return "region is not ordinary memory";
  struct stat file {};
  if (fstat(fd, &file) != 0 || file.st_size < 0 || static_cast<uint64_t>(file.st_size) < bytes) {
    return "region is shorter than said";
  }
  void* const base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return std::string("region cannot be mapped: ") + std::strerror(errno);
  regions_.push_back({static_cast<uint8_t*>(base), bytes});
  return "";
}

void Memory::clear() {
  for (const Region& region : regions_) munmap(region.base, region.bytes);
  regions_.clear();
}

}  // namespace uroce::memif
