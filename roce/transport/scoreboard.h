// What a requester knows about each request packet on its way: when it was sent, and whether the peer holds it beyond a
// gap or it is lost.
//
// Every transmission has a number. A packet is lost when three transmissions that began after its own have arrived, so
// that a retransmission can be found lost again without a timer, and a network that delivers a little out of order does
// no harm. An answer that comes so soon that it must be to an earlier copy says nothing about the later one.
//
// Entries stand in PSN order, one for each packet (a READ request, whose PSNs are many, is one). A list links those
// that may still arrive, in the order of transmission; lost ones move to another list.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/ring.h"
#include "packet/sack.h"
#include "transport/rtt_sampler.h"
#include "uroce/psn.h"
#include "uroce/time.h"

namespace uroce {

class Scoreboard {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kLaterArrivals = 3;

  enum class State : uint8_t { kUnderWay, kHeld, kLost };

  struct Sent {
    Psn psn;
    uint32_t work = 0;  // position of its work request in the send queue
    Instant at{0};      // when it was last sent
    uint64_t number = 0;
    uint32_t before = kNone;  // in one of the lists
    uint32_t after = kNone;
    State state = State::kUnderWay;
    bool again = false;  // sent more than once
    bool probe = false;  // last sent as a probe (tail_probe.h)
  };

  explicit Scoreboard(uint32_t packets) : ring_(packets) {}

  void clear();
  /// The peer is another one: round trips are measured anew.
  void forget_path() { rtt_.reset(); }
  bool full() const { return ring_.full(); }
  bool empty() const { return ring_.empty(); }
  /// Packets that are not known to have arrived.
  uint32_t open() const { return ring_.size() - held_; }

  /// A packet behind all others was sent. The board must not be full.
  void on_sent(Psn psn, uint32_t work, Instant now);
  /// A packet that is on the board was sent again.
  void on_sent_again(uint32_t entry, Instant now, bool probe);
  /// Everything before `upto` has arrived.
  void on_arrived(Psn upto, Instant now);
  /// The peer holds the packets in the range.
  void on_held(const SackRange& range, Instant now);
  /// The peer dropped what it held, and all of that is lost. Returns how many packets that are.
  uint32_t on_dropped();
  /// True when the peer, which now expects `next`, said before that it holds that packet.
  bool contradicts(Psn next) const {
    return !ring_.empty() && ring_.front().psn == next && ring_.front().state == State::kHeld;
  }
  /// Finds packets that must be lost, and returns how many.
  uint32_t find_lost();
  /// When fewer than three transmissions came after a packet's own, time decides: a packet that a later one overtook is
  /// lost when it is `patience` old. `late_at` says when that is for the oldest such packet (or Instant::never());
  /// `find_late` finds those packets and returns how many.
  Instant late_at(Duration patience) const;
  uint32_t find_late(Instant now, Duration patience);

  // Entries by number, which is their slot in the ring. A number is valid until its packet has arrived.
  /// The lost packet to send again first, or kNone.
  uint32_t lost() const { return lost_.head; }
  /// The last, or the first, packet that is not known to have arrived. If the peer holds all of them, both give the
  /// first, because the peer should have gone on by now. kNone when the board is empty.
  uint32_t last_open() const;
  uint32_t first_open() const;
  const Sent& at(uint32_t entry) const { return ring_.at(entry); }

  /// Round trips, measured with selective ACKs as well as plain ones.
  const RttSampler& rtt() const { return rtt_; }
  /// Retransmissions whose first copy had arrived after all.
  uint64_t spurious() const { return spurious_; }

 private:
  struct List {
    uint32_t head = kNone;
    uint32_t tail = kNone;
  };
  /// When an answer says that several packets arrived, it is the answer to the one that was sent last.
  struct Sample {
    uint64_t number = 0;
    Duration age{0};  // 0: unknown, because it was sent more than once
  };
  void append(List& list, uint32_t entry);
  void leave_list(uint32_t entry);
  void unlink(List& list, uint32_t entry);
  void arrived(uint32_t entry, Instant now, Sample& sample);
  void add(const Sample& sample);
  uint32_t find(Psn psn) const;
  void lose(uint32_t entry);

  Ring<Sent> ring_;  // an entry's number is its slot
  List under_way_;   // by number of transmission
  List lost_;
  uint32_t held_ = 0;
  uint64_t number_ = 0;
  std::array<uint64_t, kLaterArrivals> newest_{};  // the largest numbers that arrived, the largest first
  RttSampler rtt_;
  uint64_t spurious_ = 0;
};

}  // namespace uroce
