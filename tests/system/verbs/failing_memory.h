// Memory that fails on request: this program's malloc, mmap and pthread_create stand before those of libc, for every
// library in it, and one of their calls fails.
#pragma once

#include <cstdint>

namespace verbs_test {

/// What is asked for while one lives is counted, in every thread, and fails.
class FailingMemory {
 public:
  enum Mode { kOnce, kFromThenOn };
  /// The first request is number 1.
  FailingMemory(long nth, Mode mode);
  ~FailingMemory();
  FailingMemory(const FailingMemory&) = delete;
  FailingMemory& operator=(const FailingMemory&) = delete;
  /// From now on nothing fails.
  void end();
  /// Whether there were as many requests.
  bool failed() const;
};

/// Pieces of memory that were asked for and not given back.
int64_t pieces_in_use();

}  // namespace verbs_test
