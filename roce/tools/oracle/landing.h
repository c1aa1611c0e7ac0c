// Where the data of READs and the results of atomics go at one end of a connection: a ring of memory, in which
// operations take room when they are posted, and give it back in the same order. Around every piece that an operation
// may write there are bytes that nobody may: a canary shows it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "sim/testbed.h"

namespace uroce::oracle {

/// A part of some memory.
struct Span {
  uint32_t offset;
  uint32_t bytes;
};

class Landing {
 public:
  /// What one operation has taken: one to four pieces, or nothing.
  struct Place {
    std::vector<Span> pieces;
    uint64_t end = 0;  // what to give back up to
  };

  Landing(const sim::Side& side, uint32_t bytes);

  /// Takes room for so many bytes, in pieces that are drawn. False: all is in use.
  bool take(Place& place, uint32_t bytes, RandomSource& random);
  /// The operation is done, and all before it.
  void give_back(const Place& place);
  /// Nothing is in use, and nothing was ever written.
  void clear();

  const uint8_t* data(const Span& piece) const { return memory_.data() + piece.offset; }
  Sge sge(const Span& piece) const { return memory_.sge(piece.offset, piece.bytes); }
  /// Nothing was written beside a piece.
  bool gaps_hold(const Span& piece) const;
  /// What was written there was looked at.
  void wipe(const Span& piece);
  /// In another engine.
  void register_again(const sim::Side& side) { side.register_again(memory_); }

 private:
  sim::Buffer memory_;
  uint64_t head_ = 0;  // [tail_, head_) is in use, both modulo the memory's size
  uint64_t tail_ = 0;
};

}  // namespace uroce::oracle
