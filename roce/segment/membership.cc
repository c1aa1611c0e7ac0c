#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/random.h"
#include "segment/directory.h"
#include "segment/file_lock.h"

namespace uroce::segment {
bool Membership::join(Directory& directory, const MemberCard& card, std::string& error) {
  directory_ = &directory;
  card_ = card;
  SystemRandom random;
  id_ = std::max(random.next_u64(), uint64_t{1});
  const std::string name = Directory::file_name('m', id_);
  fd_ = openat(directory.fd(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd_ < 0) {
    error = "cannot write to " + directory.path() + ": " + std::strerror(errno) + Directory::kRemedy;
    return false;
  }
  if (!directory.share(fd_) || !lock_file(fd_)) {
    error = "cannot lock files in " + directory.path() + Directory::kRemedy;
  } else if (write(error)) {
    return true;
  }
  leave();
  return false;
}

bool Membership::write(std::string& error) {
  const std::string text = to_text(card_);
  // In one piece, and never shorter than it was while somebody reads: the last line tells whether a card is whole.
  if (pwrite(fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
      ftruncate(fd_, static_cast<off_t>(text.size())) == 0) {
    directory_->announce();
    return true;
  }
  error = "cannot write to " + directory_->path() + ": " + std::strerror(errno) + Directory::kRemedy;
  return false;
}

bool Membership::update(const MemberCard& card, std::string& error) {
  const MemberCard before = std::exchange(card_, card);
  if (write(error)) return true;
  card_ = before;
  return false;
}

void Membership::leave() {
  if (fd_ < 0) return;
  futimens(fd_, nullptr);
  unlinkat(directory_->fd(), Directory::file_name('s', id_).c_str(), 0);
  close(std::exchange(fd_, -1));
}

void Membership::forget() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

}  // namespace uroce::segment
