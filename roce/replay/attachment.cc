#include "replay/attachment.h"

#include <algorithm>
#include <iterator>

namespace uroce::replay {

void MemoryAttachment::collect(std::deque<Bytes>& sent) {
  std::move(sent_.begin(), sent_.end(), std::back_inserter(sent));
  sent_.clear();
}

uint32_t MemoryAttachment::receive(RxFrame* frames, uint32_t max) {
  const auto count = std::min(max, static_cast<uint32_t>(delivered_.size()));
  for (uint32_t i = 0; i < count; i++) {
    frames[i] = {delivered_[i].data(), static_cast<uint32_t>(delivered_[i].size()), nullptr};
  }
  return count;
}

void MemoryAttachment::release_rx(RxFrame* /*frames*/, uint32_t count) {
  delivered_.erase(delivered_.begin(), delivered_.begin() + count);
}

uint32_t MemoryAttachment::acquire_tx(TxFrame* frames, uint32_t max) {
  const uint32_t count = std::min(max, kMaxBurst);
  for (uint32_t i = 0; i < count; i++) frames[i] = {buffers_[i].data(), kFrameBytes, 0, nullptr};
  return count;
}

void MemoryAttachment::send(TxFrame* frames, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (frames[i].bytes != 0) sent_.emplace_back(frames[i].data, frames[i].data + frames[i].bytes);
  }
}

}  // namespace uroce::replay
