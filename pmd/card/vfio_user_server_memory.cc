#include "pmd/card/vfio_user_server_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

namespace mqnic::card {
namespace {

bool file_has(int fd, uint64_t offset, uint64_t bytes) {
  struct stat st {};
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return false;
  const auto size = static_cast<uint64_t>(st.st_size);
  return offset <= size && bytes <= size - offset;
}

}  // namespace

bool ClientMemory::overlaps(uint64_t address, uint64_t bytes) const {
  const auto above = std::upper_bound(mappings_.begin(), mappings_.end(), address,
                                      [](uint64_t a, const Mapping& mapping) { return a < mapping.address; });
  if (above != mappings_.end() && above->address - address < bytes) return true;
  return above != mappings_.begin() && address - (above - 1)->address < (above - 1)->bytes;
}

int ClientMemory::map(const vfio_user::DmaMap& request, int fd) {
  const uint32_t rights = request.flags & (vfio_user::kDmaReadable | vfio_user::kDmaWritable);
  if (request.flags != rights || rights == 0) return EINVAL;
  if (request.bytes == 0 || request.address + (request.bytes - 1) < request.address) return EINVAL;
  if (mappings_.size() >= kMapsMax) return ENOSPC;
  if (overlaps(request.address, request.bytes)) return EEXIST;

  Mapping mapping{request.address, request.bytes, nullptr};
  if (fd >= 0) {
    if (!file_has(fd, request.offset, request.bytes)) return EINVAL;
    // If the card writes where it must not, it writes to private copies, so that its faults do not affect others.
    const bool writable = (rights & vfio_user::kDmaWritable) != 0;
    void* const data = mmap(nullptr, request.bytes, PROT_READ | PROT_WRITE, writable ? MAP_SHARED : MAP_PRIVATE, fd,
                            static_cast<off_t>(request.offset));
    if (data == MAP_FAILED) return errno;
    mapping.data = static_cast<uint8_t*>(data);
    host_.map(mapping.address, mapping.bytes, mapping.data);
  }
  const auto above = std::upper_bound(mappings_.begin(), mappings_.end(), mapping.address,
                                      [](uint64_t a, const Mapping& other) { return a < other.address; });
  mappings_.insert(above, mapping);
  return 0;
}

int ClientMemory::unmap(uint64_t address, uint64_t bytes) {
  const auto found = std::find_if(mappings_.begin(), mappings_.end(), [&](const Mapping& mapping) {
    return mapping.address == address && mapping.bytes == bytes;
  });
  if (found == mappings_.end()) return ENOENT;
  if (found->data != nullptr) {
    host_.unmap(address, bytes);
    munmap(found->data, bytes);
  }
  mappings_.erase(found);
  return 0;
}

void ClientMemory::clear() {
  for (const Mapping& mapping : mappings_) {
    if (mapping.data == nullptr) continue;
    host_.unmap(mapping.address, mapping.bytes);
    munmap(mapping.data, mapping.bytes);
  }
  mappings_.clear();
}

}  // namespace mqnic::card
