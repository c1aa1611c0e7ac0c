// Memory that fails on request: this program's malloc, mmap and pthread_create stand before those of libc, for every
// library in it, and one of their calls fails.
#pragma once

#include <cstdint>

#include "trouble.h"

namespace verbs_test {

class FailingMemory final : public Trouble {
 public:
  void begin(long nth, Mode mode) override;
  void end() override;
  bool failed() const override;
  bool fits(int error) const override;
  std::string what() const override { return "memory"; }
};

/// Allocations that were not freed.
int64_t pieces_in_use();

}  // namespace verbs_test
