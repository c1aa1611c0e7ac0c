// How an engine tells a port that filters frames which ones it wants.
#pragma once

#include <vector>

#include "uroce/address.h"

namespace uroce {

/// Multicast groups.
class MulticastFilter {
 public:
  virtual ~MulticastFilter() = default;
  /// Frames for this MAC are wanted, or no longer are.
  virtual void want(const MacAddress& group, bool wanted) = 0;
};

/// Raw packets.
class RawFilter {
 public:
  virtual ~RawFilter() = default;
  /// From now on frames of other protocols for these MACs are wanted, and with `all` those for any.
  virtual void want_raw(const std::vector<MacAddress>& macs, bool all) = 0;
};

}  // namespace uroce
