// What the kernel knows about a range of this process's memory.
#pragma once

#include <cstdint>

namespace uroce {

enum class RangeState : uint8_t { kUsable, kNotMapped, kNotReadable, kNotWritable };
enum class Need : uint8_t { kRead, kWrite };

/// How to ask the kernel: with the ioctl of Linux 6.11, which looks up one mapping, or by reading the text of
/// /proc/self/maps.
enum class MapsInterface : uint8_t { kQuery, kText };

struct RangeAnswer {
  RangeState state = RangeState::kUsable;
  uint64_t at = 0;  // the first byte that is not usable
};

/// Says whether [start, start + bytes), which must not wrap, may be read, or read and written. Nothing is accessed and
/// no page is made, so it costs as much for 4 KiB as for a terabyte: a few microseconds, and a little more for each
/// mapping that the range crosses. Without /proc, everything that is mapped counts as usable.
RangeAnswer check_range(const void* start, uint64_t bytes, Need need, MapsInterface first = MapsInterface::kQuery);

}  // namespace uroce
