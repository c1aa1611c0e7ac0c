// Locks of open file descriptions (F_OFD_SETLK): they belong to the open file, and end with its last descriptor.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace uroce {

/// The argument of `fcntl` for a lock. `type`: F_RDLCK, F_WRLCK or F_UNLCK; `bytes` 0: to the end.
inline struct flock lock_range(short type, off_t start = 0, off_t bytes = 0) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = start;
  lock.l_len = bytes;
  return lock;
}

/// False when another open file has a lock there, or, according to errno, there is no room for locks.
inline bool lock_file(int fd, off_t start = 0, off_t bytes = 0) {
  struct flock lock = lock_range(F_WRLCK, start, bytes);
  return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

inline void unlock_file(int fd, off_t start = 0, off_t bytes = 0) {
  struct flock lock = lock_range(F_UNLCK, start, bytes);
  fcntl(fd, F_OFD_SETLK, &lock);
}

/// Whether a lock was refused, with this errno, because another open file has one there.
inline bool is_held_by_another(int error) { return error == EAGAIN || error == EACCES; }

/// True when another open file has a lock there.
inline bool is_locked(int fd) {
  struct flock lock = lock_range(F_RDLCK);
  return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/// False for a file that was removed while it is open.
inline bool has_name(int fd) {
  struct stat st {};
  return fstat(fd, &st) != 0 || st.st_nlink != 0;
}

}  // namespace uroce
