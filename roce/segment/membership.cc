#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/random.h"
#include "segment/card_file.h"
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
  } else if (write(error) == 0) {
    return true;
  }
  // Nobody has seen it yet.
  unlinkat(directory.fd(), name.c_str(), 0);
  forget();
  return false;
}

int Membership::write(std::string& error) {
  const int code = write_card(fd_, card_, written_ + 1);
  untold_ = code != 0;
  if (code != 0) {
    error = "cannot write to " + directory_->path() + ": " + std::strerror(code) + Directory::kRemedy;
    return code;
  }
  written_++;
  directory_->announce();
  return 0;
}

int Membership::update(const MemberCard& card, std::string& error) {
  const bool more_untold = untold_;
  const MemberCard before = std::exchange(card_, card);
  const int code = write(error);
  if (code != 0) {
    card_ = before;
    untold_ = more_untold;
  }
  return code;
}

int Membership::become(const MemberCard& card, std::string& error) {
  card_ = card;
  return write(error);
}

void Membership::leave() {
  if (fd_ < 0) return;
  futimens(fd_, nullptr);
  try {
    unlinkat(directory_->fd(), Directory::file_name('s', id_).c_str(), 0);
  } catch (const std::bad_alloc&) {
    // The others remove it, when they find nobody there.
  }
  close(std::exchange(fd_, -1));
}

void Membership::forget() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

}  // namespace uroce::segment
