// The argument of `fcntl`'s locks (F_OFD_SETLK and its like) for a lock on all of a file.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace uroce {

/// `type`: F_RDLCK, F_WRLCK or F_UNLCK.
inline struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace uroce
