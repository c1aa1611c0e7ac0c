// From a QPN on the wire to the QP, or to nothing.
//
// A QPN is 24 bits that look random: the table slot and a generation under a keyed permutation, so that neighbouring
// QPs have unrelated numbers and a destroyed QP's number does not come back soon. 0, 1 and 0xFFFFFF are never given. An
// engine that shares the numbers with others has some blocks of them (qpn_blocks.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/random.h"
#include "engine/qp_numbers.h"
#include "transport/qp.h"

namespace uroce {

class QpTable {
 public:
  /// `qps_max` up to QpNumbers::kSlotsMax. `blocks`: where numbers come from; nullptr: all are this table's.
  QpTable(uint32_t qps_max, RandomSource& random, QpnBlocks* blocks = nullptr);

  struct Slot {
    uint32_t index;
    uint32_t qpn;
  };
  /// The slot that has been free longest, with a new number. A block is taken only when all slots that have numbers are
  /// in use. index kNone when all are in use and there is no block. `put` takes the slot, so that it stays free when
  /// there is no memory for the QP.
  Slot next_free();
  /// A block of numbers that is this table's, for other uses of such numbers; it is taken now if there is none yet.
  /// Nothing when all numbers are ours, or no block is left.
  std::optional<uint32_t> own_block();
  void put(uint32_t index, std::unique_ptr<Qp> qp);
  void remove(uint32_t index);

  Qp* find(uint32_t qpn) const;
  /// The same when it is known which slot had the number.
  Qp* find_at(uint32_t slot, uint32_t qpn) const { return slots_[slot].qpn == qpn ? slots_[slot].qp.get() : nullptr; }
  Qp* at(uint32_t index) const { return slots_[index].qp.get(); }
  void prefetch(uint32_t qpn) const {
    const uint32_t index = numbers_.slot_of(qpn);
    if (index < slots_.size()) __builtin_prefetch(slots_[index].qp.get());
  }
  void prefetch_at(uint32_t slot) const { __builtin_prefetch(slots_[slot].qp.get()); }
  /// True when packets for this number are for us, whether a QP has it or not.
  bool owns(uint32_t qpn) const { return numbers_.owns(qpn); }
  bool owns_all() const { return numbers_.owns_all(); }
  bool another_has(uint32_t qpn) const { return numbers_.another_has(qpn); }
  uint32_t size() const { return in_use_; }
  uint32_t capacity() const { return static_cast<uint32_t>(slots_.size()); }

  template <typename F>
  void for_each(F&& f) const {
    for (const Entry& e : slots_) {
      if (e.qp) f(*e.qp);
    }
  }

  static constexpr uint32_t kNone = QpNumbers::kNone;

 private:
  struct Entry {
    uint32_t qpn = 0;
    uint32_t generation = 0;
    std::unique_ptr<Qp> qp;
  };
  void extend();
  void add_free(uint32_t index);

  std::vector<Entry> slots_;
  std::vector<uint32_t> free_;
  uint32_t free_head_ = 0;
  uint32_t free_count_ = 0;
  uint32_t in_use_ = 0;
  uint32_t numbered_ = 0;  // the slots before this one have numbers
  QpNumbers numbers_;
};

}  // namespace uroce
