#include "transport/memory_table.h"

#include <algorithm>

#include "base/check.h"

namespace uroce {

namespace {

// A key is 24 permuted bits (16 of slot, 8 of generation) above the low byte, which the owner of a type 2 window
// changes.
constexpr uint32_t kSlotBits = 16;
constexpr uint32_t kSlotMask = (1u << kSlotBits) - 1;

bool same_window(uint32_t key, uint32_t other) { return ((key ^ other) >> 8) == 0; }

}  // namespace

MemoryTable::MemoryTable(uint32_t slots_max, RandomSource& random, uint32_t pds_max)
    : slots_(std::clamp(slots_max, 1u, 1u << kSlotBits)),
      by_pd_(pds_max + 1),
      free_(slots_.size()),
      permutation_(random) {
  free_count_ = static_cast<uint32_t>(slots_.size());
  for (uint32_t i = 0; i < free_count_; i++) free_[i] = i;
  for (MemoryRegion& slot : slots_) slot.generation = random.next_u32();
}

uint32_t MemoryTable::take_slot(RegionKind kind, PdId pd) {
  ensure(free_count_ != 0, "a slot of the memory table is free");
  const uint32_t slot = free_[free_head_];
  free_head_ = (free_head_ + 1) % static_cast<uint32_t>(free_.size());
  free_count_--;
  in_use_++;
  by_pd_[pd]++;
  MemoryRegion& region = slots_[slot];
  const uint32_t generation = region.generation + 1;
  region = MemoryRegion{};
  region.kind = kind;
  region.pd = pd;
  region.generation = generation;
  const uint32_t number = ((generation & 0xFF) << kSlotBits) | slot;
  region.key = (permutation_.forward(number) << 8) | ((generation >> 8) & 0xFF);
  if (region.key == 0) region.key = 1;  // 0 means "no key" to many programs; 1 maps to the same slot
  return slot;
}

void MemoryTable::release_slot(uint32_t slot) {
  ensure(slots_[slot].kind != RegionKind::kFree, "what is freed is in use");
  by_pd_[slots_[slot].pd]--;
  slots_[slot].kind = RegionKind::kFree;
  slots_[slot].key = 0;
  free_[(free_head_ + free_count_) % static_cast<uint32_t>(free_.size())] = slot;
  free_count_++;
  in_use_--;
}

const MemoryRegion* MemoryTable::find(uint32_t key) const {
  const MemoryRegion& guess = slots_[hints_.slot(key)];
  if (guess.key == key && guess.kind != RegionKind::kFree) return &guess;
  const uint32_t slot = permutation_.backward(key >> 8) & kSlotMask;
  if (slot >= slots_.size()) return nullptr;
  const MemoryRegion& region = slots_[slot];
  if (region.kind == RegionKind::kFree || region.key != key) return nullptr;
  hints_.note(key, slot);
  return &region;
}

MemoryRegion* MemoryTable::find(uint32_t key) {
  return const_cast<MemoryRegion*>(static_cast<const MemoryTable*>(this)->find(key));
}

const MemoryRegion* MemoryTable::window(uint32_t key) const {
  const uint32_t slot = permutation_.backward(key >> 8) & kSlotMask;
  if (slot >= slots_.size()) return nullptr;
  const MemoryRegion& region = slots_[slot];
  const bool is_window = region.kind == RegionKind::kMwType1 || region.kind == RegionKind::kMwType2;
  return is_window && same_window(region.key, key) ? &region : nullptr;
}

MemoryRegion* MemoryTable::find_window(uint32_t key) {
  return const_cast<MemoryRegion*>(static_cast<const MemoryTable*>(this)->window(key));
}

namespace {

bool wraps(uint64_t start, uint64_t length) { return length != 0 && start + (length - 1) < start; }

void set_range(MemoryRegion& region, PdId pd, void* memory, uint64_t length, uint64_t iova, uint32_t access) {
  region.pd = pd;
  region.memory = static_cast<uint8_t*>(memory);
  region.length = length;
  region.iova = iova;
  region.access = access;
  region.bound = true;
}

}  // namespace

uint32_t MemoryTable::register_region(PdId pd, void* memory, uint64_t length, uint64_t iova, uint32_t access) {
  if (free_count_ == 0 || wraps(iova, length) || wraps(reinterpret_cast<uint64_t>(memory), length)) return 0;
  MemoryRegion& region = slots_[take_slot(RegionKind::kMr, pd)];
  set_range(region, pd, memory, length, iova, access);
  show(region);
  return region.key;
}

void MemoryTable::show(const MemoryRegion& region) {
  if (direct_ == nullptr || (region.access & (kRemoteRead | kRemoteWrite)) == 0) return;
  direct_->show(ShownRegion{.key = region.key,
                            .pd = region.pd,
                            .access = region.access,
                            .iova = region.iova,
                            .length = region.length,
                            .memory = reinterpret_cast<uint64_t>(region.memory)});
}

void MemoryTable::hide(const MemoryRegion& region) {
  if (direct_ != nullptr) direct_->hide_region(region.key);
}

uint32_t MemoryTable::register_null(PdId pd) {
  if (free_count_ == 0) return 0;
  MemoryRegion& region = slots_[take_slot(RegionKind::kNullMr, pd)];
  set_range(region, pd, nullptr, UINT64_MAX, 0, kLocalWrite);
  return region.key;
}

const MemoryRegion* MemoryTable::region(uint32_t key) const {
  const MemoryRegion* region = find(key);
  const bool is_region = region != nullptr && (region->kind == RegionKind::kMr || region->kind == RegionKind::kNullMr);
  return is_region ? region : nullptr;
}

bool MemoryTable::deregister(uint32_t key) {
  const MemoryRegion* found = region(key);
  if (found == nullptr || found->windows != 0) return false;
  hide(*found);
  release_slot(static_cast<uint32_t>(found - slots_.data()));
  return true;
}

bool MemoryTable::reregister(uint32_t key, PdId pd, void* memory, uint64_t length, uint64_t iova, uint32_t access) {
  MemoryRegion* region = find(key);
  if (region == nullptr || region->kind != RegionKind::kMr || region->windows != 0) return false;
  if (wraps(iova, length) || wraps(reinterpret_cast<uint64_t>(memory), length)) return false;
  hide(*region);
  by_pd_[region->pd]--;
  by_pd_[pd]++;
  set_range(*region, pd, memory, length, iova, access);
  show(*region);
  return true;
}

uint32_t MemoryTable::allocate_window(PdId pd, bool type2, void* user) {
  if (free_count_ == 0) return 0;
  MemoryRegion& window = slots_[take_slot(type2 ? RegionKind::kMwType2 : RegionKind::kMwType1, pd)];
  window.user = user;
  return window.key;
}

bool MemoryTable::free_window(uint32_t key) {
  MemoryRegion* window = find_window(key);
  if (window == nullptr) return false;
  if (window->bound) slots_[window->parent_slot].windows--;
  release_slot(static_cast<uint32_t>(window - slots_.data()));
  return true;
}

uint32_t MemoryTable::bind_window(const MwBind& bind, PdId pd, uint32_t qpn) {
  MemoryRegion* window = find_window(bind.mw_rkey);
  if (window == nullptr || window->pd != pd || !same_window(window->key, bind.new_rkey)) return 0;
  const bool type2 = window->kind == RegionKind::kMwType2;
  if (type2 && (window->bound || bind.length == 0)) return 0;
  if (bind.length != 0) {
    MemoryRegion* parent = find(bind.mr_lkey);
    if (parent == nullptr || parent->kind != RegionKind::kMr || parent->pd != pd) return 0;
    if ((parent->access & kMwBind) == 0) return 0;
    if ((bind.access & ~parent->access & (kFlushGlobal | kFlushPersistent)) != 0) return 0;  // the region lacks them
    const bool writes = (bind.access & (kRemoteWrite | kRemoteAtomic)) != 0;
    if (writes && (parent->access & kLocalWrite) == 0) return 0;
    uint8_t* memory = nullptr;
    if (check(bind.mr_lkey, pd, bind.addr, bind.length, 0, 0, memory) != AccessCheck::kOk) return 0;
    if (window->bound) slots_[window->parent_slot].windows--;
    const bool zero_based = (bind.access & kZeroBased) != 0;
    set_range(*window, pd, memory, bind.length, zero_based ? 0 : bind.addr, bind.access);
    window->parent_slot = static_cast<uint32_t>(parent - slots_.data());
    window->qpn = type2 ? qpn : 0;
    parent->windows++;
  } else if (window->bound) {
    slots_[window->parent_slot].windows--;
    window->bound = false;
  }
  return window->key = bind.new_rkey;
}

bool MemoryTable::invalidate(uint32_t key, PdId pd, uint32_t qpn) {
  MemoryRegion* window = find(key);
  if (window == nullptr || window->kind != RegionKind::kMwType2) return false;
  if (!window->bound || window->pd != pd || window->qpn != qpn) return false;
  slots_[window->parent_slot].windows--;
  window->bound = false;
  return true;
}

AccessCheck MemoryTable::check_region(const MemoryRegion* region, PdId pd, uint32_t rights, uint32_t qpn) {
  if (region == nullptr || !region->bound) return AccessCheck::kBadKey;
  if (region->pd != pd) return AccessCheck::kBadPd;
  constexpr uint32_t kRemote = kRemoteRead | kRemoteWrite | kRemoteAtomic | kFlushGlobal | kFlushPersistent;
  if ((rights & kRemote) == 0 && region->kind != RegionKind::kMr) {
    // A window's key is not valid as an lkey.
    return region->kind == RegionKind::kNullMr ? AccessCheck::kNull : AccessCheck::kBadKey;
  }
  if (region->qpn != 0 && region->qpn != qpn) return AccessCheck::kBadPd;
  if ((region->access & rights) != rights) return AccessCheck::kBadRights;
  return AccessCheck::kOk;
}

AccessCheck MemoryTable::check_key(uint32_t key, PdId pd, uint32_t rights, uint32_t qpn) const {
  return check_region(find(key), pd, rights, qpn);
}

AccessCheck MemoryTable::check(uint32_t key, PdId pd, uint64_t addr, uint64_t length, uint32_t rights, uint32_t qpn,
                               uint8_t*& memory) const {
  const MemoryRegion* region = find(key);
  const AccessCheck allowed = check_region(region, pd, rights, qpn);
  if (allowed != AccessCheck::kOk) return allowed;
  // Subtractions only: nothing here can wrap, whatever the peer sent.
  if (addr < region->iova) return AccessCheck::kOutOfRange;
  const uint64_t offset = addr - region->iova;
  if (offset > region->length || length > region->length - offset) return AccessCheck::kOutOfRange;
  memory = region->memory + offset;
  return AccessCheck::kOk;
}

}  // namespace uroce
