#include "engine/qp_table.h"

#include <algorithm>

namespace uroce {

QpTable::QpTable(uint32_t qps_max, RandomSource& random, QpnBlocks* blocks)
    : slots_(std::clamp(qps_max, 1u, QpNumbers::kSlotsMax)),
      free_(slots_.size()),
      numbers_(static_cast<uint32_t>(slots_.size()), random, blocks) {
  for (Entry& e : slots_) e.generation = random.next_u32();
}

QpTable::Slot QpTable::next_free() {
  if (free_count_ == 0) extend();
  if (free_count_ == 0) return {kNone, 0};
  const uint32_t index = free_[free_head_];
  Entry& entry = slots_[index];
  do {
    entry.generation++;
    entry.qpn = numbers_.number(index, entry.generation);
  } while (entry.qpn <= 1 || entry.qpn == kMulticastQpn);
  return {index, entry.qpn};
}

void QpTable::extend() {
  for (const uint32_t end = numbers_.extend(); numbered_ < end; numbered_++) add_free(numbered_);
}

std::optional<uint32_t> QpTable::own_block() {
  if (numbered_ == 0) extend();
  return numbers_.first_block();
}

void QpTable::add_free(uint32_t index) {
  free_[(free_head_ + free_count_) % static_cast<uint32_t>(free_.size())] = index;
  free_count_++;
}

void QpTable::put(uint32_t index, std::unique_ptr<Qp> qp) {
  slots_[index].qp = std::move(qp);
  free_head_ = (free_head_ + 1) % static_cast<uint32_t>(free_.size());
  free_count_--;
  in_use_++;
}

void QpTable::remove(uint32_t index) {
  slots_[index].qp.reset();
  add_free(index);
  in_use_--;
}

Qp* QpTable::find(uint32_t qpn) const {
  const uint32_t index = numbers_.slot_of(qpn);
  if (index >= slots_.size()) return nullptr;
  const Entry& entry = slots_[index];
  return entry.qpn == qpn ? entry.qp.get() : nullptr;
}

}  // namespace uroce
