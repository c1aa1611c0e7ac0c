// Why something could not be had, as a line of text says it.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

namespace uroce {

/// What `error` says when memory is missing. It is short enough for a string that needs none.
inline constexpr char kOutOfMemory[] = "out of memory";

/// Whether this is the reason, said here or by a system call that failed.
inline bool is_out_of_memory(const std::string& error) {
  return error.starts_with(kOutOfMemory) || error.find(std::strerror(ENOMEM)) != std::string::npos;
}

/// The errno of what was missing, or not allowed, when `error` has it in the words of strerror; else `otherwise`.
inline int errno_of(const std::string& error, int otherwise) {
  if (is_out_of_memory(error)) return ENOMEM;
  for (const int code : {EMFILE, ENFILE, ENOSPC, EDQUOT, EROFS, EACCES, EPERM, ENOLCK, ENOBUFS}) {
    if (error.find(std::strerror(code)) != std::string::npos) return code;
  }
  return otherwise;
}

}  // namespace uroce
