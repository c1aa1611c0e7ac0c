// What a requester was told that its peer holds, and the runs in which it sends everything again nevertheless.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "packet/sack.h"
#include "uroce/psn.h"

namespace uroce::lint {

class HeldPsns {
 public:
  void add(SackRange range) {
    if (ranges_.size() >= kMaxRanges) clear();
    std::erase_if(ranges_, [&range](const SackRange& known) {
      if (known.end.before(range.first) || range.end.before(known.first)) return false;
      if (known.first.before(range.first)) range.first = known.first;
      if (range.end.before(known.end)) range.end = known.end;
      return true;
    });
    ranges_.push_back(range);
  }
  void drop_before(Psn psn) {
    std::erase_if(ranges_, [psn](const SackRange& range) { return !psn.before(range.end); });
  }
  void clear() { ranges_.clear(); }

  bool contains(Psn psn) const {
    for (const SackRange& range : ranges_) {
      if (!psn.before(range.first) && psn.before(range.end)) return true;
    }
    return false;
  }
  /// Something behind `psn` is held.
  bool any_behind(Psn psn) const {
    for (const SackRange& range : ranges_) {
      if (psn.before(range.first)) return true;
    }
    return false;
  }

 private:
  static constexpr size_t kMaxRanges = 1024;
  std::vector<SackRange> ranges_;
};

/// Runs in which everything from the oldest PSN on is sent again: after a timeout or a NAK the peer holds nothing any
/// more. Several may be under way, and single packets may be repeated in between.
class BackRuns {
 public:
  void begin(Psn end) { ends_[next_++ % ends_.size()] = {end, true}; }
  /// True when the packet continues one of the runs.
  bool follow(Psn psn, Psn end) {
    for (Run& run : ends_) {
      if (!run.active || run.end != psn) continue;
      run.end = end;
      return true;
    }
    return false;
  }

 private:
  struct Run {
    Psn end;
    bool active = false;
  };
  std::array<Run, 4> ends_{};
  uint32_t next_ = 0;
};

}  // namespace uroce::lint
