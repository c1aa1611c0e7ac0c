// How what went wrong is said: in one line.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace uroce::ping {

/// `error` becomes what failed, with the reason in errno. Returns false.
inline bool failed(const char* what, std::string& error) {
  error = std::string(what) + ": " + std::strerror(errno);
  return false;
}

/// Prints the line; returns the exit status.
inline int fail(const std::string& error) {
  std::fprintf(stderr, "uroce-ping: %s\n", error.c_str());
  return 1;
}

}  // namespace uroce::ping
