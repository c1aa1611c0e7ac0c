// What this member shows of its memory to peers that copy without frames, and how it takes that back.
//
// A peer says in its half of the lane that it copies (`copying` is odd), then looks at what is shown, and copies only
// what it finds. So whoever takes something back hides it first, and then waits for the peers that say so at that
// moment: one of the two sees the other. A peer that is gone is not waited for. One that was stopped in the middle gets
// a second; then it is barred, and the wait is over (doc/adr/0022-one-copy.md says what that leaves open).
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "base/direct_copy.h"
#include "segment/layout.h"
#include "segment/peers.h"
#include "uroce/time.h"

namespace uroce::segment {

class DirectMemory {
 public:
  /// With a peer, in all waits together.
  static constexpr Duration kPatience = milliseconds(1000);

  /// `table` lies in this member's base memory; both outlive this object, and so do the mailbox's peers. `tell` gets a
  /// line when a peer is barred.
  DirectMemory(DirectTable& table, Peers& peers, std::function<void(const std::string&)> tell)
      : table_(table), peers_(peers), tell_(std::move(tell)) {}
  ~DirectMemory();
  DirectMemory(const DirectMemory&) = delete;
  DirectMemory& operator=(const DirectMemory&) = delete;

  /// False when there is no memory for the proof of who we are. Then nothing is shown.
  bool open();
  bool is_open() const { return proof_ != nullptr; }
  /// Lets those in that are in contact and could copy: programs of the same user.
  void admit_all();
  /// The peer is to be removed.
  void expel(Peer& peer);

  void show(const ShownRegion& region);
  void hide_region(uint32_t key);
  std::atomic<uint32_t>* show(const ShownQueuePair& qp);
  void hide_queue_pair(uint32_t qpn);
  void pause(bool paused);

 private:
  void hide(DirectSlot (&slots)[kDirectSlots], uint32_t key);
  void wait_for_copies();
  void wait_for(Peer& peer);

  DirectTable& table_;
  Peers& peers_;
  const std::function<void(const std::string&)> tell_;
  void* proof_ = nullptr;  // a page of its own, which no child of a fork has
};

}  // namespace uroce::segment
