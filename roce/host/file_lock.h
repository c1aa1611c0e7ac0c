// The argument of `fcntl`'s locks (F_OFD_SETLK and its like) for a lock on all of a file.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace uroce {

/// `type`: F_RDLCK, F_WRLCK or F_UNLCK.
inline struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

/// Whether a lock was refused, as errno says, because another has one there. It may also be that the kernel has no room
/// for locks.
inline bool is_held_by_another(int error) { return error == EAGAIN || error == EACCES; }

}  // namespace uroce
