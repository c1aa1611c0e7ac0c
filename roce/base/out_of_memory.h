// What `error` says when memory is missing. It is short enough for a string that needs none.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

namespace uroce {

inline constexpr char kOutOfMemory[] = "out of memory";

/// Whether this is the reason, said here or by a system call that failed.
inline bool is_out_of_memory(const std::string& error) {
  return error.starts_with(kOutOfMemory) || error.find(std::strerror(ENOMEM)) != std::string::npos;
}

}  // namespace uroce
