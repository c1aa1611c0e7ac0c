#include "base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace uroce {
namespace {

using Listing = std::unique_ptr<DIR, int (*)(DIR*)>;

/// Null if it is no directory, a link for example.
Listing list(int at, const char* name) {
  const int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  DIR* const directory = fd >= 0 ? fdopendir(fd) : nullptr;
  if (fd >= 0 && directory == nullptr) close(fd);
  return {directory, closedir};
}

const char* next_name(DIR* directory) {
  for (const dirent* entry; (entry = readdir(directory)) != nullptr;) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) return entry->d_name;
  }
  return nullptr;
}

void remove_at(int at, const char* path) {
  if (const Listing listing = list(at, path); listing != nullptr) {
    while (const char* const name = next_name(listing.get())) remove_at(dirfd(listing.get()), name);
    unlinkat(at, path, AT_REMOVEDIR);
  } else {
    unlinkat(at, path, 0);
  }
}

}  // namespace

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  const Listing listing(opendir(directory.c_str()), closedir);
  while (listing != nullptr) {
    const char* const name = next_name(listing.get());
    if (name == nullptr) break;
    names.emplace_back(name);
  }
  return names;
}

int write_all(int fd, std::string_view bytes, off_t at) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    // After a short write the rest is tried again, so that the kernel gives the reason.
    bytes.remove_prefix(static_cast<size_t>(written));
    at += written;
  }
  return 0;
}

int replace_file(const std::string& path, const std::string& beside, std::string_view bytes) {
  const int fd = open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return errno;
  int code = write_all(fd, bytes, 0);
  close(fd);
  if (code == 0 && rename(beside.c_str(), path.c_str()) != 0) code = errno;
  if (code != 0) unlink(beside.c_str());
  return code;
}

void remove_tree(const std::string& path) { remove_at(AT_FDCWD, path.c_str()); }

}  // namespace uroce
