// Short texts in files where processes meet.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace uroce {

/// Puts `text` in place of what the file has. Returns an errno when there is no room for all of it; then the file is
/// empty, since half of it would say something else.
inline int replace_text(int fd, std::string_view text) {
  if (ftruncate(fd, 0) != 0) return errno;
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = pwrite(fd, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (written > 0) {
      done += static_cast<size_t>(written);
      continue;
    }
    const int code = written < 0 ? errno : ENOSPC;
    return ftruncate(fd, 0) == 0 ? code : errno;
  }
  return 0;
}

}  // namespace uroce
