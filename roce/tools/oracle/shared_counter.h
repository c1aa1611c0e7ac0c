// A word on a host to which all ends of its peers add one: no FETCH_ADD returns what another one has returned, and at
// the end it stands at their number.
#pragma once

#include <cstdint>
#include <vector>

#include "oracle/verdict.h"
#include "sim/testbed.h"

namespace uroce::oracle {

class SharedCounter {
 public:
  explicit SharedCounter(const sim::Side& side);

  uint64_t addr() const { return memory_.addr(); }
  uint32_t key() const { return memory_.key; }
  void note_add() { adds_++; }
  /// So many of them may have been carried out, or not: their QP gave up.
  void note_unsure(uint64_t adds);
  void check_result(uint64_t value, Verdict& verdict);
  void check_end(Verdict& verdict) const;
  /// In another engine.
  void register_again(const sim::Side& side) { side.register_again(memory_); }

 private:
  sim::Buffer memory_;
  uint64_t adds_ = 0;
  uint64_t unsure_ = 0;     // of these
  std::vector<bool> seen_;  // which values FETCH_ADDs have returned
};

}  // namespace uroce::oracle
