#include "segment/lane.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "packet/network_headers.h"

namespace uroce::segment {
namespace {

/// The peer's progress is looked at when so many slots may be in use, and then not for every frame: each look may fetch
/// a cache line from the peer's core.
constexpr uint64_t kLookAt = kSlots / 2;
constexpr uint64_t kLookEvery = 32;
/// A lane is congested when there is less room than a burst may need.
constexpr uint64_t kRoomForBurst = 64;
/// A lane holds no more of the pool than this part of what is free, so that something is left however many peers do not
/// read; of the last frames, a lane gets hardly any.
constexpr uint32_t kFairPart = 4;
constexpr uint32_t kFairMin = 2;
/// Bytes of a short frame that fit into the cache line of the mark.
constexpr uint32_t kFirstLine = kLine - sizeof(uint64_t);
/// How many slots that make no sense one call passes over. Their writer may write more meanwhile.
constexpr uint32_t kNonsenseMost = Port::kMaxBurst;
static_assert(kInlineBytes == kFirstLine + kLine && LaneReceiver::kHeaderBytes <= LaneReceiver::kRoomBytes);

}  // namespace

/// Where the frame lies, in the encoding of `Mark::frame`.
uint16_t LaneSender::place_of(PooledFrame frame) {
  const uint8_t* data = pool_.at(frame.frame);
  if (frame.bytes < kEthernetBytes) return Mark::kInSlot;  // which no receiver takes
  const bool known = std::memcmp(data, header_.data(), kEthernetBytes) == 0;
  if (known && frame.bytes <= kEthernetBytes + kInlineBytes) return Mark::kInSlotWithoutHeader;
  std::memcpy(header_.data(), data, kEthernetBytes);
  return frame.bytes <= kInlineBytes ? Mark::kInSlot : static_cast<uint16_t>(frame.frame + 1);
}

void LaneSender::put(PooledFrame frame) {
  const uint64_t position = produced_++;
  Slot& slot = own_.slots[position % kSlots];
  const Mark mark{static_cast<uint32_t>(position + 1), frame.bytes, place_of(frame)};
  if (mark.in_slot()) {
    const uint32_t skipped = mark.frame == Mark::kInSlotWithoutHeader ? kEthernetBytes : 0;
    const uint8_t* data = pool_.at(frame.frame) + skipped;
    const uint32_t bytes = frame.bytes - skipped;
    // The second line first: when the mark can be seen, both are there.
    if (bytes > kFirstLine) std::memcpy(slot.bytes + kFirstLine, data + kFirstLine, kLine);
    std::memcpy(slot.bytes, data, kFirstLine);
    in_slot_[position % kSlots] = 0;
    pool_.give_back(frame.frame);
    held_--;
  } else {
    in_slot_[position % kSlots] = mark.frame;
  }
  // The peer reads slots in their order, so what follows the first cannot be seen before the first.
  if (position == published_) {
    first_mark_ = mark.encode();
  } else {
    slot.mark.store(mark.encode(), std::memory_order_relaxed);
  }
}

void LaneSender::publish() {
  if (published_ == produced_) return;
  own_.slots[published_ % kSlots].mark.store(first_mark_, std::memory_order_release);
  published_ = produced_;
}

bool LaneSender::has_room() {
  const uint64_t used = produced_ - reclaimed_;
  if (used == kSlots || (used >= kLookAt && produced_ % kLookEvery == 0)) reclaim();
  return produced_ - reclaimed_ < kSlots;
}

bool LaneSender::holds_much() const {
  return held_ >= kFairMin && (held_ > pool_.free() / kFairPart || pool_.free() < FramePool::kReserve);
}

LaneSender::Sent LaneSender::send(PooledFrame frame) {
  held_++;
  // It would occupy a frame of the pool for long.
  const bool wasted = stuck_ && frame.bytes > kEthernetBytes + kInlineBytes && held_ > kFairMin;
  if (backlog_count_ == 0 && !wasted && has_room()) {
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
  publish();
}

bool LaneSender::congested() {
  if (stuck_) return false;
  if (backlog_count_ != 0) return true;
  if (!holds_much() && produced_ - reclaimed_ + kRoomForBurst <= kSlots) return false;
  reclaim();
  return holds_much() || produced_ - reclaimed_ + kRoomForBurst > kSlots;
}

void LaneSender::reclaim() {
  if (peer_ == nullptr) return;
  const uint64_t consumed = peer_->consumed.load(std::memory_order_acquire);
  // The peer's position is taken only if it can be true.
  if (consumed - reclaimed_ > published_ - reclaimed_) return;
  for (; reclaimed_ != consumed; reclaimed_++) {
    const uint16_t frame = std::exchange(in_slot_[reclaimed_ % kSlots], 0);
    if (frame == 0) continue;
    pool_.give_back_read(static_cast<uint16_t>(frame - 1));
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
  reclaimed_ = published_ = produced_;
  ensure(held_ == 0, "a lane knows every frame that it holds");
}

bool LaneReceiver::ready() const { return peer_ != nullptr && position_ - released_ < kSlots && is_written(position_); }

uint32_t LaneReceiver::waiting() const {
  if (peer_ == nullptr) return 0;
  uint64_t end = position_;
  while (end - released_ < kSlots && is_written(end)) end++;
  return static_cast<uint32_t>(end - position_);
}

/// The frame of a slot that makes sense.
LaneFrame LaneReceiver::read(const Slot& slot, const Mark& mark, uint8_t* room) {
  if (!mark.in_slot()) {
    const uint8_t* const data = base_->frames[mark.frame - 1];
    std::memcpy(room, data, kHeaderBytes);
    std::memcpy(header_.data(), room, kEthernetBytes);
    return {data, room, mark.bytes};
  }
  uint8_t* to = room;
  uint32_t bytes = mark.bytes;
  if (mark.frame == Mark::kInSlotWithoutHeader) {
    std::memcpy(to, header_.data(), kEthernetBytes);
    to += kEthernetBytes;
    bytes -= kEthernetBytes;
  }
  std::memcpy(to, slot.bytes, kFirstLine);
  if (bytes > kFirstLine) std::memcpy(to + kFirstLine, slot.bytes + kFirstLine, kLine);
  if (mark.frame == Mark::kInSlot) std::memcpy(header_.data(), room, kEthernetBytes);
  return {room, nullptr, mark.bytes};
}

std::optional<LaneFrame> LaneReceiver::receive_behind_nonsense(uint8_t* room) {
  const uint64_t nonsense_most = nonsense_ + kNonsenseMost;
  while (position_ - released_ < kSlots && nonsense_ != nonsense_most) {
    const Slot& slot = peer_->slots[position_ % kSlots];
    const Mark mark = Mark::decode(slot.mark.load(std::memory_order_acquire));
    if (mark.sequence != static_cast<uint32_t>(position_ + 1)) return std::nullopt;
    position_++;
    if (makes_sense(mark)) return read(slot, mark, room);
    nonsense_++;
    // The caller holds no frame, so it would never release this slot.
    if (position_ == released_ + 1) release();
  }
  return std::nullopt;
}

void LaneReceiver::release() {
  if (released_ == position_) return;
  released_ = position_;
  own_.consumed.store(position_, std::memory_order_release);
}

}  // namespace uroce::segment
