// The path of frames between this member and one peer: a ring in each direction.
//
// Frames that the peer's ring has no room for wait in a backlog of bounded length, oldest first; `congested` says so
// before it comes to that. Nothing here knows where frames go, or who the peer is.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "segment/frame_pool.h"
#include "segment/layout.h"
#include "segment/shared_memory.h"
#include "uroce/port.h"

namespace uroce::segment {

/// A frame of ours in the pool.
struct PooledFrame {
  uint16_t frame = 0;
  uint16_t bytes = 0;
};

/// The sending half.
class LaneSender {
 public:
  static constexpr uint32_t kBacklog = 128;

  enum class Sent : uint8_t { kInRing, kWaits, kDropped };

  /// `own` is this member's half of the lane; `pool` has the frames that are sent. Both outlive the sender.
  LaneSender(LaneMemory& own, FramePool& pool) : own_(own), pool_(pool) {}
  LaneSender(const LaneSender&) = delete;
  LaneSender& operator=(const LaneSender&) = delete;

  /// The peer's half is known from now on; until then nothing is known to have been read.
  void connect(const LaneMemory& peer) { peer_ = &peer; }

  /// Takes the frame, which goes back to the pool when the peer has read it, or when it is dropped. The peer sees it
  /// after `publish`.
  Sent send(PooledFrame frame);
  /// Moves waiting frames into the ring as far as there is room, and publishes them.
  void flush();
  /// Shows the peer what was sent since the last time, all of it at once: the peer acts on no part of a burst before
  /// the rest is there (an ACK that follows the program's message in the same burst is as good as one that precedes
  /// it).
  void publish();
  /// Frames would have to wait, or hold more of the pool than is fair.
  bool congested();
  /// The peer has read nothing for a long time: what does not find room at once is dropped, so that a sender that
  /// retries comes to an end.
  void set_stuck(bool stuck) { stuck_ = stuck; }
  bool stuck() const { return stuck_; }
  /// True while frames wait in the backlog.
  bool waiting() const { return backlog_count_ != 0; }
  /// How many slots the peer has read, as far as we have looked, and how many were written.
  uint64_t consumed() const { return reclaimed_; }
  uint64_t produced() const { return produced_; }
  /// Something that was sent has not been read, as far as a look tells.
  bool unread() {
    reclaim();
    return produced_ != reclaimed_ || waiting();
  }
  /// Gives back the frames that the peer has read.
  void reclaim();
  /// Drops the waiting frames. Returns how many.
  uint32_t drop_backlog();
  /// The peer is gone: all frames go back to the pool.
  void abandon();

 private:
  bool has_room();
  bool holds_much() const;
  void put(PooledFrame frame);
  uint16_t place_of(PooledFrame frame);

  LaneMemory& own_;
  FramePool& pool_;
  const LaneMemory* peer_ = nullptr;
  uint64_t produced_ = 0;    // slots written
  uint64_t published_ = 0;   // of these, visible
  uint64_t first_mark_ = 0;  // of slot `published_`, which is written last
  uint64_t reclaimed_ = 0;   // of these, read by the peer, as far as we have looked
  uint32_t held_ = 0;        // frames of the pool that are in the ring or wait
  bool stuck_ = false;
  std::array<uint8_t, kEthernetBytes> header_{};  // Ethernet header of the previous frame
  std::array<uint16_t, kSlots> in_slot_{};        // frame + 1 that a slot refers to, or 0
  std::array<PooledFrame, kBacklog> backlog_{};
  uint32_t backlog_head_ = 0;
  uint32_t backlog_count_ = 0;
};

/// A received frame. A short one is in the receiver's own memory; a long one is where its sender built it, and only its
/// headers were copied.
struct LaneFrame {
  const uint8_t* data = nullptr;
  const uint8_t* headers = nullptr;  // nullptr: `data` does not change
  uint32_t bytes = 0;
};

/// The receiving half.
class LaneReceiver {
 public:
  static constexpr uint32_t kHeaderBytes = RxFrame::kHeaderBytes;  // that are copied of a long frame
  static constexpr uint32_t kRoomBytes = kEthernetBytes + kInlineBytes;

  explicit LaneReceiver(LaneMemory& own) : own_(own) {}
  LaneReceiver(const LaneReceiver&) = delete;
  LaneReceiver& operator=(const LaneReceiver&) = delete;

  void connect(const LaneMemory& peer, const BaseMemory& base) {
    peer_ = &peer;
    base_ = &base;
  }
  bool connected() const { return peer_ != nullptr; }
  /// Something can be received, as far as a look at the next slot tells.
  bool ready() const;
  /// How many slots hold something that can be received.
  uint32_t waiting() const;
  /// The next frame; `room` (kRoomBytes) receives the copied part. Nothing when there is none. Slots that make no sense
  /// are passed over and counted; when there are many, nothing is returned either.
  std::optional<LaneFrame> receive(uint8_t* room) {
    if (peer_ == nullptr || position_ - released_ >= kSlots) return std::nullopt;
    const Slot& slot = peer_->slots[position_ % kSlots];
    const Mark mark = Mark::decode(slot.mark.load(std::memory_order_acquire));
    if (mark.sequence != static_cast<uint32_t>(position_ + 1)) return std::nullopt;
    if (!makes_sense(mark)) [[unlikely]]
      return receive_behind_nonsense(room);
    position_++;
    return read(slot, mark, room);
  }
  /// All frames received so far are done with.
  void release();
  uint64_t nonsense() const { return nonsense_; }

 private:
  static bool makes_sense(const Mark& mark) {
    return mark.bytes >= kEthernetBytes && mark.bytes <= longest(mark) &&
           (mark.frame <= kPoolFrames || mark.frame == Mark::kInSlotWithoutHeader);
  }
  /// The length of the longest frame that a mark may describe.
  static uint32_t longest(const Mark& mark) {
    if (mark.frame == Mark::kInSlot) return kInlineBytes;
    return mark.frame == Mark::kInSlotWithoutHeader ? kEthernetBytes + kInlineBytes : kFrameBytes;
  }
  std::optional<LaneFrame> receive_behind_nonsense(uint8_t* room);
  LaneFrame read(const Slot& slot, const Mark& mark, uint8_t* room);
  bool is_written(uint64_t position) const {
    const uint64_t word = peer_->slots[position % kSlots].mark.load(std::memory_order_relaxed);
    return Mark::decode(word).sequence == static_cast<uint32_t>(position + 1);
  }

  LaneMemory& own_;
  const LaneMemory* peer_ = nullptr;
  const BaseMemory* base_ = nullptr;
  uint64_t position_ = 0;
  uint64_t released_ = 0;
  uint64_t nonsense_ = 0;
  std::array<uint8_t, kEthernetBytes> header_{};  // as the sender's
};

}  // namespace uroce::segment
