// A member of a segment: an Ethernet in shared memory, in which every program of a machine takes part.
//
// A frame goes straight from the sender's memory to the program that it is for, found by destination MAC and queue pair
// number; there is no process in the middle, and nothing but the memory of the two is involved. All programs of a
// *host* have the same MAC and addresses; each has blocks of the host's queue pair numbers.
//
// A port is used by one thread at a time, like every Port. Only `wake_fd` may be waited for meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "segment/bells.h"
#include "segment/forwarding.h"
#include "segment/introductions.h"
#include "segment/local_answers.h"
#include "segment/mailbox.h"
#include "segment/peer_checks.h"
#include "segment/peers.h"
#include "segment/registration.h"
#include "uroce/port.h"
#include "uroce/time.h"

namespace uroce::segment {

struct SegmentOptions {
  std::string directory;
  MemberCard card;  // without blocks
  uint32_t frame_bytes = kFrameBytes;
  std::function<void(const std::string&)> warn = [](const std::string&) {};  // lines for the log
};

struct SegmentCounters {
  uint64_t tx_dropped_nobody = 0;  // for a queue pair that no program has
  uint64_t tx_dropped_full = 0;    // more than the receiver's ring and our backlog take
  uint64_t tx_dropped_stuck = 0;   // the receiver has taken nothing for a long time
  uint64_t tx_dropped_no_way = 0;  // for no queue pair, and wanted by nobody on the segment
  uint64_t rx_nonsense = 0;        // slots that no correct sender writes
  uint64_t contacts = 0;           // peers with which there was contact
  uint64_t peers_lost = 0;         // of these, gone
  uint64_t wakes_sent = 0;
};

template <typename F>
void for_each_counter(const SegmentCounters& counters, F&& f) {
  f("tx_dropped_nobody", counters.tx_dropped_nobody);
  f("tx_dropped_full", counters.tx_dropped_full);
  f("tx_dropped_stuck", counters.tx_dropped_stuck);
  f("tx_dropped_no_way", counters.tx_dropped_no_way);
  f("rx_nonsense", counters.rx_nonsense);
  f("contacts", counters.contacts);
  f("peers_lost", counters.peers_lost);
  f("wakes_sent", counters.wakes_sent);
}

class SegmentPort final : public Port {
 public:
  /// Returns nullptr, with one line in `error`, when that fails.
  static std::unique_ptr<SegmentPort> join(const SegmentOptions& options, std::string& error);
  /// Leaves. What was sent can still be received.
  ~SegmentPort() override;

  uint32_t receive(RxFrame* frames, uint32_t max) override;
  void release_rx(RxFrame* frames, uint32_t count) override;
  uint32_t acquire_tx(TxFrame* frames, uint32_t max) override;
  void send(TxFrame* frames, uint32_t count) override;
  bool queues_by_destination() const override { return true; }
  bool congested(const MacAddress& dst, uint32_t dest_qpn) override;

  /// To be called once per turn, when no received frame is held.
  void on_turn(Instant now) {
    now_ = now;
    if (!queued_.empty()) flush();
    if (now >= next_mail_) look_after(now);
  }
  /// Something can be received, as far as a look tells.
  bool has_frames() const;
  /// Frames wait for room at their receivers.
  bool tx_pending() const { return !queued_.empty(); }
  /// A further block of queue pair numbers of the host; nothing when there is none.
  std::optional<uint32_t> take_block();

  /// Before its thread sleeps: from now on whoever sends a frame makes `wake_fd` readable. False when something is
  /// there already; then it must not sleep. `disarm` ends it; a call to receive does so, too.
  bool arm();
  void disarm();
  int wake_fd() const { return mailbox_.fd(); }

  SegmentCounters counters() const;
  MemberId id() const { return registration_.id(); }
  /// The uplink of this member's host is there, and its link is up. False when it has none. Any thread may ask; it is
  /// as of the last turns.
  bool uplink_up() const { return uplink_up_.load(std::memory_order_relaxed); }

  // For an uplink. A frame that was received has its sender for a token: a Peer, until the frame is released.

  /// Tells the others something new about this member. Returns false, with one line in `error`, when that fails.
  bool update(const std::function<void(MemberCard&)>& change, std::string& error);
  Peers& peers() { return parts_->peers; }
  /// In the child of a fork, where everything belongs to the parent: closes the descriptors that keep it alive for the
  /// others. Nothing of the port may be used any more, or destroyed.
  void abandon();

 private:
  explicit SegmentPort(const SegmentOptions& options) : options_(options) {}
  bool start(std::string& error);
  void forward(PooledFrame frame);
  void look_for_uplink(Instant now);
  void deliver(Peer& peer, PooledFrame frame);
  void flush();
  void look_after(Instant now);
  void say_goodbye(Peer& peer);
  uint32_t receive_from(Peer& peer, RxFrame* frames, uint32_t max);

  BaseMemory& base() { return *static_cast<BaseMemory*>(base_memory_.data()); }

  /// What needs the memory, the mailbox and the number that a port has once it has joined.
  struct Parts {
    Parts(SegmentPort& port, BaseMemory& base);
    FramePool pool;
    Peers peers;
    Introductions introductions;
    LocalAnswers answers;
    Forwarding forwarding;
    Bells bells;
    PeerChecks checks;
  };

  const SegmentOptions options_;
  Registration registration_;
  Mailbox mailbox_;
  OwnMemory base_memory_;
  std::optional<Parts> parts_;
  SegmentCounters counters_;

  Instant now_{0};
  Instant next_mail_{0};
  Instant next_uplink_look_{0};
  std::atomic<bool> uplink_up_{false};
  size_t last_received_ = 0;  // whose turn it was
  bool armed_ = false;
  std::vector<Peer*> queued_;  // have frames in their backlog
  uint32_t held_ = 0;          // received frames that were not released yet
  std::array<std::array<uint8_t, LaneReceiver::kHeaderBytes>, kMaxBurst> headers_{};
};

}  // namespace uroce::segment
