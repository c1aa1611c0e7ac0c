// A member of a segment: an Ethernet in shared memory, which all programs of a machine share.
//
// A frame goes straight from the sender's memory to the program that it is for, found by destination MAC and queue pair
// number; there is no process in between, and only memory of the two is involved. All programs of a *host* have the
// same MAC and addresses; each has blocks of the host's queue pair numbers.
//
// A port is used by one thread at a time, like every Port. Only waiting for `sleep().fd()` is allowed meanwhile.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "segment/bells.h"
#include "segment/deliveries.h"
#include "segment/direct_copies.h"
#include "segment/forwarding.h"
#include "segment/introductions.h"
#include "segment/local_answers.h"
#include "segment/mailbox.h"
#include "segment/next_hops.h"
#include "segment/peer_checks.h"
#include "segment/peers.h"
#include "segment/registration.h"
#include "segment/segment_counters.h"
#include "segment/sleep.h"
#include "segment/uplink_watch.h"
#include "uroce/port.h"
#include "uroce/time.h"

namespace uroce::segment {

struct SegmentOptions {
  std::string directory;
  MemberRecord record;  // without blocks
  uint32_t frame_bytes = kFrameBytes;
  uint32_t lanes_max = 0;  // other programs to meet, each of which takes memory; 0: any number
  // It is there to meet one member, as a port of a switch, and need trust nobody who joins: it meets few, whatever they
  // are, and reads the directory no more than a part of the time, however full others make it.
  bool as_cable = false;
  bool direct = false;  // a program: READs and WRITEs without frames, with other programs that do
  std::function<void(const std::string&)> warn = [](const std::string&) {};  // lines for the log
  std::function<void(const std::string&)> tell = [](const std::string&) {};  // the same, of what is no trouble
};

class SegmentPort final : public Port {
 public:
  /// Returns nullptr, with one line in `error`, when that fails.
  static std::unique_ptr<SegmentPort> join(const SegmentOptions& options, std::string& error);
  /// Leaves the segment. What was sent can still be received.
  ~SegmentPort() override;

  uint32_t receive(RxFrame* frames, uint32_t max) override;
  void release_rx(RxFrame* frames, uint32_t count) override;
  uint32_t acquire_tx(TxFrame* frames, uint32_t max) override;
  void send(TxFrame* frames, uint32_t count) override;
  bool queues_by_destination() const override { return options_.record.role != Role::kBridge; }
  bool congested(const MacAddress& dst, uint32_t dest_qpn) override;
  NextHops* next_hops() override { return &parts_->hops; }

  /// To be called once per turn, when no received frame is held.
  void on_turn(Instant now) {
    now_ = now;
    if (tx_pending()) parts_->deliveries.retry();
    if (now >= next_look_ || parts_->sleep.woken()) look_after(now);
  }
  /// Whether something can be received, as far as a look tells.
  bool has_frames() const { return parts_->sleep.has_frames(); }
  /// Whether frames wait for room at their receivers.
  bool tx_pending() const { return parts_->deliveries.any_waiting(); }
  /// A further block of queue pair numbers of the host; nothing when there is none.
  std::optional<uint32_t> take_block();

  Sleep& sleep() { return parts_->sleep; }

  SegmentCounters counters() const;
  /// What the others know about this member.
  Registration& registration() { return registration_; }
  const UplinkWatch& uplink() const { return parts_->uplink; }
  /// nullptr unless the options ask for it.
  DirectCopy* direct() { return parts_->direct ? &*parts_->direct : nullptr; }
  /// For an uplink, which has to know the senders of frames: the token of a received frame is its Peer, until it is
  /// released.
  Peers& peers() { return parts_->peers; }
  /// Sets the listener that `on_turn` tells of programs and stations that are gone, if there was contact: within a
  /// second, and when everything that they sent has been received.
  void on_lost(LossListener listener) { on_lost_ = std::move(listener); }
  /// In the child of a fork, where everything belongs to the parent: closes the descriptors that keep it alive for the
  /// others. Nothing of the port may be used any more, or destroyed.
  void abandon();

 private:
  explicit SegmentPort(const SegmentOptions& options) : options_(options) {}
  bool start(std::string& error);
  void forward(PooledFrame frame);
  void look_after(Instant now);
  void look_at_mail(Instant now);
  void part_with_the_gone(Instant now);
  uint32_t receive_from(Peer& peer, RxFrame* frames, uint32_t max);

  /// The parts that need the memory, the mailbox and the number that a port has once it has joined.
  struct Parts {
    Parts(SegmentPort& port, BaseMemory& base);
    FramePool pool;
    Peers peers;
    SegmentHops hops;
    Introductions introductions;
    LocalAnswers answers;
    Forwarding forwarding;
    Bells bells;
    Deliveries deliveries;
    Sleep sleep;
    UplinkWatch uplink;
    PeerChecks checks;
    std::optional<DirectCopies> direct;
  };

  const SegmentOptions options_;
  Registration registration_;
  Mailbox mailbox_;
  OwnMemory base_memory_;
  std::optional<Parts> parts_;
  SegmentCounters counters_;
  LossListener on_lost_ = [](const LostMember&, Instant) {};

  Instant now_{0};
  Instant next_look_{0};
  Instant next_mail_{0};
  size_t last_received_ = 0;  // index of the peer whose turn it was
  uint32_t held_ = 0;         // received frames that were not released yet
  std::array<std::array<uint8_t, LaneReceiver::kRoomBytes>, kMaxBurst> headers_{};
};

}  // namespace uroce::segment
