// How often a directory is read that others may fill with files at will: seldom, when that takes long.
#pragma once

#include <cstdint>
#include <ctime>

#include "segment/directory.h"

namespace uroce::segment {

class ScanRest {
 public:
  /// If not `rests`, it is read as often as that is asked for.
  explicit ScanRest(bool rests) : rests_(rests) {}
  /// A scan was asked for, and put off.
  bool owed() const { return owed_; }
  /// Directory::scan, unless it is too early. False then, too.
  bool scan(Directory& directory) {
    if (!rests_) return directory.scan();
    owed_ = now_ns(CLOCK_MONOTONIC) < until_ns_;
    if (owed_) return false;
    const int64_t before = now_ns(CLOCK_THREAD_CPUTIME_ID);
    const bool whole = directory.scan();
    const int64_t cost = now_ns(CLOCK_THREAD_CPUTIME_ID) - before;
    if (cost > kDearNs) until_ns_ = now_ns(CLOCK_MONOTONIC) + kRests * cost;
    return whole;
  }

 private:
  static constexpr int64_t kDearNs = 250'000;  // the few files that are expected take a tenth of it
  static constexpr int64_t kRests = 19;

  static int64_t now_ns(clockid_t clock) {
    timespec ts{};
    clock_gettime(clock, &ts);
    return int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
  }

  const bool rests_;
  bool owed_ = false;
  int64_t until_ns_ = 0;
};

}  // namespace uroce::segment
