#include "pmd/card/wires/runtime_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace mqnic::card {
namespace {

struct flock one_byte(unsigned byte, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

std::string directory_name() {
  if (const char* own = std::getenv("UROCE_RUNTIME_DIR"); own != nullptr && *own != 0) return own;
  return geteuid() == 0 ? "/run/uroce" : "/tmp/uroce-" + std::to_string(geteuid());
}

}  // namespace

std::string runtime_directory(std::string& error) {
  std::string directory = directory_name();
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    error = "cannot create " + directory + ": " + std::strerror(errno) + "; name another place with UROCE_RUNTIME_DIR";
    return "";
  }
  struct stat st {};
  const bool owned = lstat(directory.c_str(), &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
                     (st.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  if (!owned) {
    error = directory + " is not a directory that only this user writes to; name another place with UROCE_RUNTIME_DIR";
    return "";
  }
  return directory;
}

bool good_file_name(const std::string& name) {
  if (name.empty() || name.size() > 64 || name[0] == '.') return false;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && std::strchr("-_.", c) == nullptr) return false;
  }
  return true;
}

int lock_byte(int fd, unsigned byte, bool wait) {
  struct flock lock = one_byte(byte, F_WRLCK);
  while (fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock) != 0) {
    if (errno != EINTR) return -errno;
  }
  return 0;
}

void unlock_byte(int fd, unsigned byte) {
  struct flock lock = one_byte(byte, F_UNLCK);
  fcntl(fd, F_OFD_SETLK, &lock);
}

bool byte_is_locked(int fd, unsigned byte) {
  struct flock lock = one_byte(byte, F_WRLCK);
  return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace mqnic::card
