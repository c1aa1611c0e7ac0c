#include "replay/player_port.h"

#include <algorithm>

#include "base/check.h"

namespace uroce::replay {

void MemoryPlayerPort::deliver(std::span<const uint8_t> frame) {
  const bool there = port_.deliver(frame.first(std::min<size_t>(frame.size(), kLongestRecorded)));
  ensure(there, "the engine receives a frame before the next one is delivered");
}

void MemoryPlayerPort::collect(std::deque<Bytes>& sent) {
  while (const auto frame = port_.take()) sent.emplace_back(frame->begin(), frame->end());
}

}  // namespace uroce::replay
