// Memory regions and windows, and the checks that are made before any byte of them is touched.
//
// Registration is O(1): a slot is taken, nothing is pinned or copied. A key (lkey and rkey are the same number) is 32
// bits that look random: slot and generation under a keyed permutation, so that a guessed key is wrong with high
// probability and a key is not used again for a long time. Type 2 windows own the low byte of their key, as verbs
// programs expect (ibv_inc_rkey), so the low byte of every key is kept outside the permutation.
//
// Owned by the engine; used by the thread that drives it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/direct_copy.h"
#include "base/permutation.h"
#include "base/random.h"
#include "base/slot_hints.h"
#include "uroce/types.h"
#include "uroce/work_request.h"

namespace uroce {

/// A null region has no memory: reads from it give zeros, and writes to it are dropped.
enum class RegionKind : uint8_t { kFree, kMr, kNullMr, kMwType1, kMwType2 };

struct MemoryRegion {
  RegionKind kind = RegionKind::kFree;
  bool bound = false;  // windows: a range is bound; regions: always
  uint32_t key = 0;
  PdId pd = 0;
  uint32_t access = 0;  // Access
  uint64_t iova = 0;    // first address as work requests and peers name it
  uint64_t length = 0;
  uint8_t* memory = nullptr;  // the address of `iova` in this process
  uint32_t parent_slot = 0;   // windows: the region below
  uint32_t qpn = 0;           // bound type 2 windows: the QP that may use it
  uint32_t windows = 0;       // regions: windows bound to it
  uint32_t generation = 0;
  void* user = nullptr;  // windows: passed to allocate_window
};

/// Why an access is refused. kNull is no refusal: the key is a null region's, which is there for local use only.
enum class AccessCheck : uint8_t { kOk, kNull, kBadKey, kBadPd, kBadRights, kOutOfRange };

class MemoryTable {
 public:
  /// `slots_max`: regions and windows together, up to 2^16. All memory is allocated here.
  MemoryTable(uint32_t slots_max, RandomSource& random, uint32_t pds_max = 4096);
  /// From now on regions are shown to peers that copy without frames: those that a peer may read or write. `direct`
  /// outlives the table. What takes a region back waits for such a copy.
  void show_to(DirectCopy* direct) { direct_ = direct; }

  /// Returns the key, or 0 when the table is full or iova + length wraps.
  uint32_t register_region(PdId pd, void* memory, uint64_t length, uint64_t iova, uint32_t access);
  /// A region without memory, for every address and length. Returns its key, or 0 when the table is full.
  uint32_t register_null(PdId pd);
  /// The region with this key; nullptr when there is none, or when it is a window's. Null regions are found.
  const MemoryRegion* region(uint32_t key) const;
  /// False: no such key, or windows are still bound to it.
  bool deregister(uint32_t key);
  /// Changes a region in place (ibv_rereg_mr); the key stays. False as for `deregister`, for null regions, and when the
  /// new range wraps.
  bool reregister(uint32_t key, PdId pd, void* memory, uint64_t length, uint64_t iova, uint32_t access);

  uint32_t allocate_window(PdId pd, bool type2, void* user = nullptr);  // 0: full
  // The functions below find a window by any key that it had or will have, that is without the low byte. Programs are
  // told the key of a bind when they post it, and the bind may be refused later.
  bool free_window(uint32_t key);
  /// Binds (or, with length 0, unbinds) a window. Returns the key that it has from now on, or 0 when the bind is
  /// refused.
  uint32_t bind_window(const MwBind& bind, PdId pd, uint32_t qpn);
  const MemoryRegion* window(uint32_t key) const;
  /// Carries out LOCAL_INV, or a peer's SEND with Invalidate. False unless `key` is a bound type 2 window of that PD.
  bool invalidate(uint32_t key, PdId pd, uint32_t qpn);

  /// Checks that [addr, addr+length) may be used with `key` and `rights` (all bits needed), without any sum that could
  /// wrap, and stores in `memory` where that range lies in this process. Not to be called with `length` 0: an access
  /// without bytes needs no key.
  AccessCheck check(uint32_t key, PdId pd, uint64_t addr, uint64_t length, uint32_t rights, uint32_t qpn,
                    uint8_t*& memory) const;

  /// Checks key and rights alone, for a request that names a region or window as a whole.
  AccessCheck check_key(uint32_t key, PdId pd, uint32_t rights, uint32_t qpn) const;

  /// Calls `f(slot, region)` for every region, windows and null regions left out.
  template <typename F>
  void for_each_region(F&& f) const {
    for (uint32_t slot = 0; slot < slots_.size(); slot++) {
      if (slots_[slot].kind == RegionKind::kMr) f(slot, slots_[slot]);
    }
  }
  uint32_t in_use() const { return in_use_; }
  uint32_t in_use_by(PdId pd) const { return by_pd_[pd]; }

 private:
  static AccessCheck check_region(const MemoryRegion* region, PdId pd, uint32_t rights, uint32_t qpn);
  uint32_t take_slot(RegionKind kind, PdId pd);
  void release_slot(uint32_t slot);
  const MemoryRegion* find(uint32_t key) const;
  MemoryRegion* find(uint32_t key);
  MemoryRegion* find_window(uint32_t key);
  void show(const MemoryRegion& region);
  void hide(const MemoryRegion& region);

  std::vector<MemoryRegion> slots_;
  std::vector<uint32_t> by_pd_;  // slots in use
  std::vector<uint32_t> free_;   // a circular queue: the slot freed longest ago is used next
  uint32_t free_head_ = 0;
  uint32_t free_count_ = 0;
  uint32_t in_use_ = 0;
  Permutation<24> permutation_;
  mutable SlotHints hints_;  // by key
  DirectCopy* direct_ = nullptr;
};

}  // namespace uroce
