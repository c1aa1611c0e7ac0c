// Short texts in files where processes meet.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "base/files.h"

namespace uroce {

/// Puts `text` in place of what the file has. Returns an errno when there is no room for all of it; then the file is
/// empty, since half of it would say something else.
inline int replace_text(int fd, std::string_view text) {
  if (ftruncate(fd, 0) != 0) return errno;
  const int code = write_all(fd, text, 0);
  return code == 0 || ftruncate(fd, 0) == 0 ? code : errno;
}

}  // namespace uroce
