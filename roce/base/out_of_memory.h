// Reasons of failures, as lines of text.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

namespace uroce {

/// What `error` says when memory is missing. It is short enough for a string that needs no allocation.
inline constexpr char kOutOfMemory[] = "out of memory";

/// Whether memory is the reason, from here or from a failed system call.
inline bool is_out_of_memory(const std::string& error) {
  return error.starts_with(kOutOfMemory) || error.find(std::strerror(ENOMEM)) != std::string::npos;
}

/// The errno for a missing resource or permission, when `error` has it in the words of strerror; else `otherwise`.
inline int errno_of(const std::string& error, int otherwise) {
  if (is_out_of_memory(error)) return ENOMEM;
  for (const int code : {EMFILE, ENFILE, ENOSPC, EDQUOT, EROFS, EACCES, EPERM, ENOLCK, ENOBUFS}) {
    if (error.find(std::strerror(code)) != std::string::npos) return code;
  }
  return otherwise;
}

}  // namespace uroce
