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

  Mapping mapping{request.address, request.bytes, rights, nullptr};
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
  if (mapping.data == nullptr) private_++;
  return 0;
}

int ClientMemory::unmap(uint64_t address, uint64_t bytes) {
  const uint64_t last = address + (bytes - 1);
  if (bytes == 0 || last < address) return EINVAL;
  // They do not overlap, so their ends are sorted as their addresses are.
  const auto first = std::find_if(mappings_.begin(), mappings_.end(),
                                  [&](const Mapping& mapping) { return mapping.last() >= address; });
  const auto end = std::find_if(first, mappings_.end(), [&](const Mapping& mapping) { return mapping.address > last; });
  if (first == end) return 0;
  if (first->address < address || (end - 1)->last() > last) return EINVAL;
  for (auto mapping = first; mapping != end; ++mapping) release(*mapping);
  mappings_.erase(first, end);
  return 0;
}

void ClientMemory::release(const Mapping& mapping) {
  if (mapping.data == nullptr) {
    private_--;
    return;
  }
  host_.unmap(mapping.address, mapping.bytes);
  munmap(mapping.data, mapping.bytes);
}

void ClientMemory::clear() {
  for (const Mapping& mapping : mappings_) release(mapping);
  mappings_.clear();
}

/// How much of a range lies in a mapping without a file that has this right.
size_t ClientMemory::remote_bytes(uint64_t address, size_t wanted, uint32_t right) const {
  const auto above = std::upper_bound(mappings_.begin(), mappings_.end(), address,
                                      [](uint64_t a, const Mapping& mapping) { return a < mapping.address; });
  if (above == mappings_.begin()) return 0;
  const Mapping& mapping = *(above - 1);
  if (mapping.data != nullptr || address > mapping.last() || (mapping.rights & right) == 0) return 0;
  return std::min<uint64_t>(wanted, mapping.bytes - (address - mapping.address));
}

size_t ClientMemory::read(uint64_t dma_address, std::span<uint8_t> to) {
  const std::span<uint8_t> here = to.first(remote_bytes(dma_address, to.size(), vfio_user::kDmaReadable));
  return messages_.read(dma_address, here) ? here.size() : 0;
}

size_t ClientMemory::write(uint64_t dma_address, std::span<const uint8_t> from) {
  const std::span<const uint8_t> here = from.first(remote_bytes(dma_address, from.size(), vfio_user::kDmaWritable));
  return messages_.write(dma_address, here) ? here.size() : 0;
}

}  // namespace mqnic::card
