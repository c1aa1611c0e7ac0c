// What the programs of the host have on the device, and have counted there, as they tell of it (host/object_rows.h).
#pragma once

#include <cstdint>
#include <vector>

#include "host/object_rows.h"
#include "transport/counters.h"

namespace uroce::verbs {

/// Of one program.
struct ProgramObjects {
  uint32_t pid = 0;             // 0: it is in another PID namespace
  uint64_t count = 0;           // how many there are
  std::vector<uint64_t> words;  // their rows
};

class HostObjects {
 public:
  HostObjects() = default;
  HostObjects(const HostObjects&) = delete;
  HostObjects& operator=(const HostObjects&) = delete;
  virtual ~HostObjects() = default;

  /// How many there are of a kind, without rows.
  virtual uint64_t count(ObjectKind kind) = 0;
  /// Whole rows of `row_words` words.
  virtual std::vector<ProgramObjects> list(ObjectKind kind, size_t row_words) = 0;
  /// What all of them together have counted.
  virtual Counters counters() = 0;
};

}  // namespace uroce::verbs
