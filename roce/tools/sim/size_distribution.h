// The sizes of flows: a cumulative distribution, linear between its points.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace uroce::sim {

class SizeDistribution {
 public:
  struct Point {
    uint64_t bytes;
    double percent;  // of all flows are not longer than this
  };

  /// "websearch" and "hadoop" (the published traces of a search cluster and of a Hadoop cluster), or a single size.
  /// Returns false for anything else.
  static bool named(std::string_view name, SizeDistribution& distribution);
  /// Reads lines or words of BYTES:PERCENT, both rising, the last with 100. `error` is empty when it worked.
  static SizeDistribution parse(std::string_view text, std::string& error);

  double mean_bytes() const;
  /// Draws the size of a flow, at least one byte.
  uint64_t draw(RandomSource& random) const;
  const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;
};

}  // namespace uroce::sim
