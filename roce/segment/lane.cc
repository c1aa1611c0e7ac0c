#include "segment/lane.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace uroce::segment {
namespace {

/// The peer's progress is looked at when so many slots may be in use: every look may fetch a line from its core.
constexpr uint64_t kLookAt = kSlots / 2;
/// A lane is congested when there is less room than a burst may need.
constexpr uint64_t kRoomForBurst = 64;
/// Frames of the pool that a lane may always have, however few are free.
constexpr uint32_t kFairShare = 32;
constexpr uint32_t kEthernetBytes = 14;
/// What the line of the mark has of a short frame.
constexpr uint32_t kFirstLine = kLine - sizeof(uint64_t);
static_assert(kInlineBytes == kFirstLine + kLine && kInlineBytes <= LaneReceiver::kHeaderBytes);

}  // namespace

void LaneSender::put(PooledFrame frame) {
  const uint64_t position = produced_++;
  Slot& slot = own_.slots[position % kSlots];
  Mark mark{static_cast<uint32_t>(position + 1), frame.bytes, 0};
  if (frame.bytes <= kInlineBytes) {
    const uint8_t* data = pool_.at(frame.frame);
    // The second line first: when the mark can be seen, both are there.
    if (frame.bytes > kFirstLine) std::memcpy(slot.bytes + kFirstLine, data + kFirstLine, kLine);
    std::memcpy(slot.bytes, data, kFirstLine);
    in_slot_[position % kSlots] = 0;
    pool_.give_back(frame.frame);
    held_--;
  } else {
    mark.frame = static_cast<uint16_t>(frame.frame + 1);
    in_slot_[position % kSlots] = mark.frame;
  }
  slot.mark.store(mark.encode(), std::memory_order_release);
}

bool LaneSender::has_room() {
  if (produced_ - reclaimed_ >= kLookAt) reclaim();
  return produced_ - reclaimed_ < kSlots;
}

LaneSender::Sent LaneSender::send(PooledFrame frame) {
  held_++;
  if (backlog_count_ == 0 && has_room()) {
    put(frame);
    return Sent::kInRing;
  }
  if (stuck_ || backlog_count_ == kBacklog) {
    held_--;
    pool_.give_back(frame.frame);
    return Sent::kDropped;
  }
  backlog_[(backlog_head_ + backlog_count_++) % kBacklog] = frame;
  return Sent::kWaits;
}

void LaneSender::flush() {
  while (backlog_count_ != 0 && has_room()) {
    put(backlog_[backlog_head_]);
    backlog_head_ = (backlog_head_ + 1) % kBacklog;
    backlog_count_--;
  }
}

bool LaneSender::congested() {
  if (stuck_) return false;
  if (backlog_count_ != 0) return true;
  const bool much = held_ > std::max(kFairShare, pool_.free());
  if (!much && produced_ - reclaimed_ + kRoomForBurst <= kSlots) return false;
  reclaim();
  return produced_ - reclaimed_ + kRoomForBurst > kSlots || held_ > std::max(kFairShare, pool_.free());
}

void LaneSender::reclaim() {
  if (peer_ == nullptr) return;
  const uint64_t consumed = peer_->consumed.load(std::memory_order_acquire);
  // What the peer says is taken only if it can be true.
  if (consumed - reclaimed_ > produced_ - reclaimed_) return;
  for (; reclaimed_ != consumed; reclaimed_++) {
    const uint16_t frame = std::exchange(in_slot_[reclaimed_ % kSlots], 0);
    if (frame == 0) continue;
    pool_.give_back(static_cast<uint16_t>(frame - 1));
    held_--;
  }
}

uint32_t LaneSender::drop_backlog() {
  const uint32_t dropped = backlog_count_;
  for (; backlog_count_ != 0; backlog_count_--) {
    pool_.give_back(backlog_[backlog_head_].frame);
    held_--;
    backlog_head_ = (backlog_head_ + 1) % kBacklog;
  }
  return dropped;
}

void LaneSender::abandon() {
  drop_backlog();
  for (uint16_t& frame : in_slot_) {
    if (frame == 0) continue;
    pool_.give_back(static_cast<uint16_t>(std::exchange(frame, 0) - 1));
    held_--;
  }
  reclaimed_ = produced_;
  ensure(held_ == 0, "a lane knows every frame that it holds");
}

bool LaneReceiver::ready() const {
  if (peer_ == nullptr) return false;
  const uint64_t word = peer_->slots[position_ % kSlots].mark.load(std::memory_order_relaxed);
  return Mark::decode(word).sequence == static_cast<uint32_t>(position_ + 1);
}

std::optional<LaneFrame> LaneReceiver::receive(uint8_t* room) {
  while (peer_ != nullptr && position_ - released_ < kSlots) {
    const Slot& slot = peer_->slots[position_ % kSlots];
    const Mark mark = Mark::decode(slot.mark.load(std::memory_order_acquire));
    if (mark.sequence != static_cast<uint32_t>(position_ + 1)) return std::nullopt;
    position_++;
    const uint32_t longest = mark.frame == 0 ? kInlineBytes : kFrameBytes;
    if (mark.bytes < kEthernetBytes || mark.bytes > longest || mark.frame > kPoolFrames) {
      nonsense_++;
      continue;
    }
    if (mark.frame == 0) {
      std::memcpy(room, slot.bytes, kFirstLine);
      if (mark.bytes > kFirstLine) std::memcpy(room + kFirstLine, slot.bytes + kFirstLine, kLine);
      return LaneFrame{room, nullptr, mark.bytes};
    }
    const uint8_t* data = base_->frames[mark.frame - 1];
    std::memcpy(room, data, kHeaderBytes);
    return LaneFrame{data, room, mark.bytes};
  }
  return std::nullopt;
}

void LaneReceiver::release() {
  if (released_ == position_) return;
  released_ = position_;
  own_.consumed.store(position_, std::memory_order_release);
}

}  // namespace uroce::segment
