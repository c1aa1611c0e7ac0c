// The engine is called by programs whose errno only their own calls may change.
#pragma once

#include <cerrno>

namespace uroce {

/// For a scope with system calls that a program did not ask for.
class KeptErrno {
 public:
  KeptErrno() : value_(errno) {}
  ~KeptErrno() { errno = value_; }
  KeptErrno(const KeptErrno&) = delete;
  KeptErrno& operator=(const KeptErrno&) = delete;

 private:
  const int value_;
};

}  // namespace uroce
