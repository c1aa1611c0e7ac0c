#include "oracle/memory_window.h"

#include "base/check.h"

namespace uroce::oracle {

bool MemoryWindow::allocate(const sim::Side& side) {
  key_ = side.engine().memory().allocate_window(side.pd, true);
  return key_ != 0;
}

void MemoryWindow::step(State from, State to) {
  ensure(state_ == from, "one thing at a time happens to a window");
  state_ = to;
}

MwBind MemoryWindow::begin_bind(const TargetMemory& target, RandomSource& random) {
  step(State::kUnbound, State::kBinding);
  bytes_ = 1 + random.below(target.size());
  offset_ = random.below(target.size() - bytes_ + 1);
  ensure(bytes_ <= target.size() && offset_ <= target.size() - bytes_, "a window lies in the memory that it opens");
  const uint32_t old_key = key_;
  key_ = (old_key & ~0xFFu) | ((old_key + 1) & 0xFF);
  return {old_key, key_, target.key(), target.addr(offset_), bytes_, kRemoteRead | kRemoteWrite};
}

void MemoryWindow::on_bound() { step(State::kBinding, State::kBound); }
void MemoryWindow::begin_invalidate() { step(State::kBound, State::kInvalidating); }
void MemoryWindow::on_invalidated() { step(State::kInvalidating, State::kUnbound); }
void MemoryWindow::begin_release() { step(State::kBound, State::kReleasing); }
void MemoryWindow::on_released() { step(State::kReleasing, State::kUnbound); }

}  // namespace uroce::oracle
