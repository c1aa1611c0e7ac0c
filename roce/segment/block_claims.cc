#include "segment/block_claims.h"
#include "base/file_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace uroce::segment {
bool BlockClaims::open(Directory& directory, const MacAddress& mac, std::string& error) {
  directory_ = &directory;
  mac_ = mac;
  fd_ = directory.open_host_file('q', mac, error);
  return fd_ >= 0;
}

bool BlockClaims::is_there() const { return has_name(fd_); }

bool BlockClaims::open_again(const std::vector<uint32_t>& own, std::string& error) {
  const int fd = directory_->open_host_file('q', mac_, error);
  if (fd < 0) return false;
  close(std::exchange(fd_, fd));
  for (const uint32_t block : own) {
    if (!lock_file(fd_, static_cast<off_t>(block), 1)) error = "another program has queue pair numbers of this one";
  }
  return true;
}

std::optional<uint32_t> BlockClaims::take(RandomSource& random) {
  // Blocks 0 and kQpnBlocks - 1 have numbers with a meaning of their own.
  constexpr uint32_t kChoices = kQpnBlocks - 2;
  if (fd_ < 0) return std::nullopt;
  const uint32_t first = random.below(kChoices);
  directory_->scan();
  std::vector<bool> taken = directory_->taken_blocks(mac_);
  for (uint32_t i = 0; i < kChoices; i++) {
    const uint32_t block = 1 + (first + i) % kChoices;
    // The kernel grants a lock that is ours already once more, but then the block is on our record.
    if (taken[block]) continue;
    if (!lock_file(fd_, static_cast<off_t>(block), 1)) {
      if (is_held_by_another(errno)) continue;
      return std::nullopt;  // no other lock would be granted either
    }
    // The member that had the block may have left after the scan: then the block rests by now.
    directory_->scan();
    taken = directory_->taken_blocks(mac_);
    if (!taken[block]) return block;
    give_back(block);
  }
  return std::nullopt;
}

void BlockClaims::give_back(uint32_t block) { unlock_file(fd_, static_cast<off_t>(block), 1); }

void BlockClaims::forget() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

}  // namespace uroce::segment
