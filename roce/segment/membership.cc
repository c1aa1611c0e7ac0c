#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/file_lock.h"
#include "base/out_of_memory.h"
#include "base/random.h"
#include "segment/directory.h"
#include "segment/record_file.h"

namespace uroce::segment {

bool Membership::join(Directory& directory, const MemberRecord& record, std::string& error) {
  directory_ = &directory;
  record_ = record;
  SystemRandom random;
  id_ = std::max(random.next_u64(), uint64_t{1});
  fd_ = make_file(error);
  return fd_ >= 0;
}

/// -1, with one line in `error`, when it cannot be made.
int Membership::make_file(std::string& error) {
  const std::string name = Directory::file_name('m', id_);
  const int fd = openat(directory_->fd(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    error = "cannot write to " + directory_->path() + ": " + std::strerror(errno) + Directory::kRemedy;
    return -1;
  }
  const int before = std::exchange(fd_, fd);
  if (!directory_->share(fd_) || !lock_file(fd_)) {
    error = "cannot lock files in " + directory_->path() + ": " + std::strerror(errno) + Directory::kRemedy;
  } else if (write(error) == 0) {
    fd_ = before;
    return fd;
  }
  // No other member has seen the file yet.
  fd_ = before;
  unlinkat(directory_->fd(), name.c_str(), 0);
  close(fd);
  return -1;
}

bool Membership::is_there() const { return has_name(fd_); }

bool Membership::join_again(std::string& error) {
  const int fd = make_file(error);
  if (fd < 0) return false;
  close(std::exchange(fd_, fd));
  return true;
}

/// A record for which there is no memory counts as not published, as after any other failure.
int Membership::write(std::string& error) {
  int code = ENOMEM;
  try {
    code = write_record(fd_, record_, written_ + 1);
    if (code != 0) error = "cannot write to " + directory_->path() + ": " + std::strerror(code) + Directory::kRemedy;
  } catch (const std::bad_alloc&) {
    error = kOutOfMemory;
  }
  untold_ = code != 0;
  if (untold_) return code;
  written_++;
  directory_->announce();
  return 0;
}

int Membership::update(MemberRecord record, std::string& error) {
  const bool more_untold = untold_;
  MemberRecord before = std::exchange(record_, std::move(record));
  const int code = write(error);
  if (code != 0) {
    record_ = std::move(before);
    untold_ = more_untold;
  }
  return code;
}

int Membership::become(const std::function<void(MemberRecord&)>& change, std::string& error) {
  change(record_);
  return write(error);
}

void Membership::leave() {
  if (fd_ < 0) return;
  futimens(fd_, nullptr);
  try {
    unlinkat(directory_->fd(), Directory::file_name('s', id_).c_str(), 0);
  } catch (const std::bad_alloc&) {
    // The others remove it when they find the member gone.
  }
  close(std::exchange(fd_, -1));
}

void Membership::forget() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

}  // namespace uroce::segment
