#include "engine/qp_table.h"

#include <algorithm>

namespace uroce {

namespace {
constexpr uint32_t kIndexBits = 16;
constexpr uint32_t kIndexMask = (1u << kIndexBits) - 1;
constexpr uint32_t kMulticastQpn = 0xFFFFFF;
}  // namespace

QpTable::QpTable(uint32_t qps_max, RandomSource& random)
    : slots_(std::clamp(qps_max, 1u, 1u << kIndexBits)), free_(slots_.size()), permutation_(random) {
  free_count_ = static_cast<uint32_t>(slots_.size());
  for (uint32_t i = 0; i < free_count_; i++) free_[i] = i;
  for (Entry& e : slots_) e.generation = random.next_u32();
}

QpTable::Slot QpTable::next_free() {
  if (free_count_ == 0) return {kNone, 0};
  const uint32_t index = free_[free_head_];
  Entry& entry = slots_[index];
  do {
    entry.generation++;
    entry.qpn = permutation_.forward(((entry.generation & 0xFF) << kIndexBits) | index);
  } while (entry.qpn <= 1 || entry.qpn == kMulticastQpn);
  return {index, entry.qpn};
}

void QpTable::put(uint32_t index, std::unique_ptr<Qp> qp) {
  slots_[index].qp = std::move(qp);
  free_head_ = (free_head_ + 1) % static_cast<uint32_t>(free_.size());
  free_count_--;
  in_use_++;
}

void QpTable::remove(uint32_t index) {
  slots_[index].qp.reset();
  free_[(free_head_ + free_count_) % static_cast<uint32_t>(free_.size())] = index;
  free_count_++;
  in_use_--;
}

uint32_t QpTable::index_of(uint32_t qpn) const { return permutation_.backward(qpn) & kIndexMask; }

Qp* QpTable::find(uint32_t qpn) const {
  const uint32_t index = index_of(qpn);
  if (index >= slots_.size()) return nullptr;
  const Entry& entry = slots_[index];
  return entry.qpn == qpn ? entry.qp.get() : nullptr;
}

}  // namespace uroce
