#include "fabric/buffer_pool.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace uroce::fabric {

bool BufferPool::grow(size_t wanted) {
  ensure(free_.empty(), "a pool grows when all that it has is in use");
  const size_t count = std::min(wanted, max_buffers_ - buffers_);
  if (count == 0) return false;
  slabs_.emplace_back(new uint8_t[count * buffer_bytes_]);  // not zeroed: frames are written before they are read
  buffers_ += count;
  free_.reserve(buffers_);
  for (size_t i = count; i > 0; i--) free_.push_back(slabs_.back().get() + (i - 1) * buffer_bytes_);
  return true;
}

void BufferPool::reserve(size_t buffers) {
  ensure(buffers_ == 0, "room is made before the first buffer is used");
  grow(buffers);
}

FabricFrame BufferPool::clone(const FabricFrame& frame) {
  const FabricFrame copy = allocate(frame.bytes);
  if (copy) std::memcpy(copy.data, frame.data, frame.bytes);
  return copy;
}

}  // namespace uroce::fabric
