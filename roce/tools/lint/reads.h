// READs and atomics that were requested, and how far each was answered.
//
// Both are answered by packets of their own instead of an ACK: a READ takes one PSN for each of its responses, an
// atomic takes one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lint/numbers.h"
#include "lint/packet.h"
#include "packet/sack.h"
#include "uroce/psn.h"

namespace uroce::lint {

constexpr bool is_atomic(const OpcodeInfo& info) {
  return info.operation == Operation::kCompareSwap || info.operation == Operation::kFetchAdd;
}

/// FLUSH and ATOMIC WRITE, which are answered like a READ of nothing.
constexpr bool is_placement(const OpcodeInfo& info) {
  return info.operation == Operation::kFlush || info.operation == Operation::kAtomicWrite;
}

/// The newest repetitions of a READ, with the PSNs from and up to which each asked.
class Retries {
 public:
  static constexpr uint32_t kKept = 16;

  void add(Psn from, Psn to) { newest_[count_++ % kKept] = {from, to}; }
  uint32_t count() const { return count_; }
  /// True when one of the newest `among` started at this PSN.
  bool started_at(Psn psn, uint32_t among) const {
    for (uint32_t i = 0; i < std::min(count_, among); i++) {
      if (newest_[(count_ - 1 - i) % kKept].first == psn) return true;
    }
    return false;
  }
  /// True when one of the newest ended at this PSN.
  bool ended_at(Psn psn) const {
    for (uint32_t i = 0; i < std::min(count_, kKept); i++) {
      if (newest_[i].end == psn) return true;
    }
    return false;
  }

 private:
  uint32_t count_ = 0;
  std::array<SackRange, kKept> newest_{};
};

/// A READ or an atomic, and its responses so far.
struct Read {
  enum class Span : uint8_t {
    kGuessed,  // because the path MTU is not known
    kKnown,
    kLate,  // known, but earlier responses may not have been recognised as its own
  };
  /// Whether something came that should have come after its responses.
  enum class Hole : uint8_t {
    kNone,
    kOpen,
    kAskedAgain,  // the requester noticed it, too
  };

  enum class Kind : uint8_t { kRead, kAtomic, kPlacement };
  /// What a READ is about.
  struct Asked {
    uint64_t va = 0;
    uint32_t length = 0;
    uint32_t rkey = 0;
    uint32_t srqn = 0;  // XRC
  };

  Psn psn;
  uint32_t span = 1;
  Span span_state = Span::kKnown;
  bool origin_known = true;  // false: only a repetition was seen, which may have started later
  Kind kind = Kind::kRead;
  Asked asked;
  Retries retries;
  uint64_t repeats_before = 0;  // retransmissions that were seen before it was sent
  // What was answered.
  uint64_t value = 0;       // atomic: the value in the first response
  uint32_t answered = 0;    // all offsets below this were seen
  uint64_t seen_ahead = 0;  // bit i: offset answered + i was seen
  uint32_t newest = 0;      // offset behind the newest response
  uint32_t steps_back = 0;  // responses that did not continue the one before
  Hole hole = Hole::kNone;
  uint64_t hole_frame = 0;    // the frame that came instead
  uint64_t hole_packets = 0;  // Conversation::packets at that time

  bool atomic() const { return kind == Kind::kAtomic; }
  /// Bytes of data in its answer.
  uint32_t answer_bytes() const { return kind == Kind::kRead ? asked.length : 0; }
  bool contains(Psn p) const { return covers(psn, span, p); }
  bool span_known() const { return span_state != Span::kGuessed; }
  bool done() const { return span_known() && answered >= span; }
  bool untouched() const { return answered == 0 && seen_ahead == 0; }
  Psn end() const { return psn + span; }
};

/// The READs and atomics that may still be asked for again, by PSN. Only the channel and the judge of READs change
/// them.
class Reads {
 public:
  const Read* find(Psn psn) const;
  Read* find(Psn psn) { return const_cast<Read*>(static_cast<const Reads*>(this)->find(psn)); }

  void insert(const Read& read);
  bool is_full() const { return reads_.size() > kMax; }
  std::span<const Read> oldest_half() const { return std::span<const Read>(reads_).first(kMax / 2); }
  void drop_oldest_half();

  std::span<const Read> all() const { return reads_; }
  std::span<Read> all() { return reads_; }
  /// Those from the first one on that is not answered.
  std::span<Read> open();
  /// How many still wait for a response that is not known to be missing.
  uint32_t waiting() const;
  /// The PSN of the oldest response that is still to come for requests before `acked`.
  std::optional<Psn> oldest_in_doubt(Psn acked) const;

 private:
  static constexpr size_t kMax = 512;
  std::vector<Read> reads_;
  size_t open_ = 0;          // index: those before are answered
  mutable size_t hint_ = 0;  // index: the one that was found last
};

}  // namespace uroce::lint
