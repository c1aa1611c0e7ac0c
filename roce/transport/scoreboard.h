// What a requester knows of each request packet on its way: sent when, held by the peer beyond a gap, or lost.
//
// Every transmission has a number. A packet is lost when three transmissions that began after its own have arrived, so
// that a retransmission can be found lost again without a timer, and a network that delivers a little out of order does
// no harm. What arrived in time to be the answer to an earlier copy says nothing about the later one.
//
// Entries stand in PSN order, one for each packet (a READ request, whose PSNs are many, is one). A second list has
// those that may still arrive, in the order of transmission; the lost ones move to a third.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/ring.h"
#include "transport/rtt_sampler.h"
#include "uroce/psn.h"
#include "uroce/time.h"
#include "wire/sack.h"

namespace uroce {

class Scoreboard {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kLaterArrivals = 3;

  enum class State : uint8_t { kUnderWay, kHeld, kLost };

  struct Sent {
    Psn psn;
    uint32_t work = 0;  // position of its work request in the send queue
    Instant at{0};      // of the latest transmission
    uint64_t number = 0;
    uint32_t before = kNone;  // in one of the lists
    uint32_t after = kNone;
    State state = State::kUnderWay;
    bool again = false;  // sent more than once
    bool probe = false;  // sent to find out
  };

  explicit Scoreboard(uint32_t packets) : ring_(packets) {}

  void clear();
  /// Another peer: round trips are measured anew.
  void forget_path() { rtt_.reset(); }
  bool full() const { return ring_.full(); }
  bool empty() const { return ring_.empty(); }
  /// Packets that are not known to have arrived.
  uint32_t open() const { return ring_.size() - held_; }

  /// A packet behind all others left. The board must not be full.
  void on_sent(Psn psn, uint32_t work, Instant now);
  /// One that is on the board left again.
  void on_sent_again(uint32_t entry, Instant now, bool probe);
  /// Everything before `upto` has arrived.
  void on_arrived(Psn upto, Instant now);
  /// The peer holds what lies in the range.
  void on_held(const SackRange& range, Instant now);
  /// The peer dropped what it held: all of that is lost. Returns how many that are.
  uint32_t on_dropped();
  /// The peer says that it expects the first packet; and it said before that it holds it.
  bool contradicts(Psn next) const {
    return !ring_.empty() && ring_.front().psn == next && ring_.front().state == State::kHeld;
  }
  /// Moves what must be lost to the lost ones. Returns how many there are new.
  uint32_t find_lost();
  /// Fewer than three may have left later: then time tells. The oldest that something later overtook is lost when it is
  /// `patience` old: when that is (or never), and those that are.
  Instant late_at(Duration patience) const;
  uint32_t find_late(Instant now, Duration patience);

  // Entries by number, good until the entry arrives.
  /// The one to send again first, or kNone.
  uint32_t lost() const { return lost_.head; }
  /// The last, or the first, that is not known to have arrived. If the peer holds all of them, the first: it should
  /// have gone on by now. kNone: there are none.
  uint32_t last_open() const;
  uint32_t first_open() const;
  const Sent& at(uint32_t entry) const { return ring_.at(entry); }

  /// From selective ACKs as well as plain ones.
  const RttSampler& rtt() const { return rtt_; }
  /// Retransmissions whose first copy had arrived after all.
  uint64_t spurious() const { return spurious_; }

 private:
  struct List {
    uint32_t head = kNone;
    uint32_t tail = kNone;
  };
  /// The answer that says that packets arrived is the answer to the one sent last among them.
  struct Sample {
    uint64_t number = 0;
    Duration age{0};  // 0: sent more than once, so nobody knows
  };
  void append(List& list, uint32_t entry);
  void leave_list(uint32_t entry);
  void unlink(List& list, uint32_t entry);
  void arrived(uint32_t entry, Instant now, Sample& sample);
  void add(const Sample& sample);
  uint32_t find(Psn psn) const;
  void lose(uint32_t entry);

  Ring<Sent> ring_;  // an entry's number is its slot
  List under_way_;   // by number
  List lost_;
  uint32_t held_ = 0;
  uint64_t number_ = 0;
  std::array<uint64_t, kLaterArrivals> newest_{};  // numbers that arrived, the largest first
  RttSampler rtt_;
  uint64_t spurious_ = 0;
};

}  // namespace uroce
