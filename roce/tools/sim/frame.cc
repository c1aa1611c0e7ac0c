#include "sim/frame.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <vector>

#include "base/check.h"

namespace uroce::sim {

/// The buffers of one thread.
class FrameStore {
 public:
  ~FrameStore() {
    for (Frame::Block* block : all_) ::operator delete (block, std::align_val_t{alignof(Frame::Block)});
  }

  Frame::Block* take(size_t bytes) {
    uint32_t size_class = 0;
    while (size_class + 1 < Frame::kCapacities.size() && Frame::kCapacities[size_class] < bytes) size_class++;
    if (Frame::kCapacities[size_class] < bytes) throw std::bad_alloc();
    Frame::Block* block = free_[size_class];
    if (block != nullptr) {
      free_[size_class] = block->next;
      return block;
    }
    void* memory =
        ::operator new (sizeof(Frame::Block) + Frame::kCapacities[size_class], std::align_val_t{alignof(Frame::Block)});
    all_.push_back(new (memory) Frame::Block{nullptr, 0, size_class});
    return all_.back();
  }
  void give_back(Frame::Block* block) {
    ensure(block->size_class < free_.size(), "a buffer that comes back is one of ours");
    block->next = free_[block->size_class];
    free_[block->size_class] = block;
  }

 private:
  std::array<Frame::Block*, Frame::kCapacities.size()> free_{};
  std::vector<Frame::Block*> all_;  // so that also frames that are still under way when a run ends are freed
};

namespace {

FrameStore& store() {
  static thread_local FrameStore instance;
  return instance;
}

}  // namespace

Frame::Block* Frame::take(size_t bytes) { return store().take(bytes); }
void Frame::give_back(Block* block) { store().give_back(block); }

Frame::Frame(size_t bytes) : block_(take(bytes)) {
  block_->bytes = static_cast<uint32_t>(bytes);
  std::fill_n(block_->data(), bytes, uint8_t{0});
}

Frame::Frame(std::span<const uint8_t> bytes) : block_(take(bytes.size())) {
  block_->bytes = static_cast<uint32_t>(bytes.size());
  if (!bytes.empty()) std::memcpy(block_->data(), bytes.data(), bytes.size());
}

Frame Frame::with_capacity(size_t bytes) {
  Frame frame;
  frame.block_ = take(bytes);
  frame.block_->bytes = 0;
  return frame;
}

bool Frame::operator==(const Frame& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

}  // namespace uroce::sim
