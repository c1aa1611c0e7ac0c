// What the kernel knows about a range of this process's memory.
#pragma once

#include <cstdint>

namespace uroce {

enum class RangeState : uint8_t { kUsable, kNotMapped, kNotReadable, kNotWritable };
enum class Need : uint8_t { kRead, kWrite };

/// How to ask: the ioctl of Linux 6.11, which looks one mapping up, or the text of /proc/self/maps, all of it.
enum class MapsInterface : uint8_t { kQuery, kText };

struct RangeAnswer {
  RangeState state = RangeState::kUsable;
  uint64_t at = 0;  // the first byte that is not usable
};

/// May [start, start + bytes) be read, or read and written? It must not wrap. Nothing is touched and no page made, so
/// it costs the same for 4 KiB and for a terabyte, a few microseconds and a little more for each mapping that the range
/// crosses. Where /proc is not there, everything that is mapped counts as usable.
RangeAnswer check_range(const void* start, uint64_t bytes, Need need, MapsInterface first = MapsInterface::kQuery);

}  // namespace uroce
