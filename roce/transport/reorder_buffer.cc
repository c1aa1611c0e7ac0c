#include "transport/reorder_buffer.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace uroce {

void ReorderPool::prepare() {
  if (slots_) return;
  slots_.reset(new Slot[packets_]);
  bytes_.reset(new uint8_t[size_t{packets_} * slot_bytes_]);  // the kernel provides each page when it is first used
  free_ = packets_;
}

uint32_t ReorderPool::take() {
  if (free_ == 0) return kNone;
  free_--;
  if (first_free_ == kNone) return untouched_++;
  const uint32_t slot = first_free_;
  first_free_ = slots_[slot].next;
  return slot;
}

void ReorderPool::give_back(uint32_t slot) {
  ensure(free_ < packets_ && slot < untouched_, "a slot that is given back was taken");
  slots_[slot].next = first_free_;
  first_free_ = slot;
  free_++;
}

void ReorderPool::put_last(ReorderBuffer& buffer) {
  buffer.silent_longer_ = latest_;
  buffer.silent_shorter_ = nullptr;
  (latest_ == nullptr ? longest_silent_ : latest_->silent_shorter_) = &buffer;
  latest_ = &buffer;
}

void ReorderPool::put_off(ReorderBuffer& buffer) {
  ReorderBuffer* const before = buffer.silent_longer_;
  ReorderBuffer* const after = buffer.silent_shorter_;
  (before == nullptr ? longest_silent_ : before->silent_shorter_) = after;
  (after == nullptr ? latest_ : after->silent_longer_) = before;
}

/// Empties the buffer to which nothing has come for the longest time, if that is at least kSilence. If its peer is
/// still there, it sends again what the buffer held.
bool ReorderPool::reclaim(const ReorderBuffer& for_whom, Instant now) {
  ReorderBuffer* const victim = longest_silent_;
  if (victim == nullptr || victim == &for_whom || now - victim->arrival_ < kSilence) return false;
  victim->clear();
  return true;
}

bool ReorderBuffer::may_hold(const PacketView& packet) const {
  return pool_ != nullptr && packet.payload_bytes <= pool_->mtu() && packets_ < pool_->free();
}

void ReorderBuffer::store(uint32_t n, const PacketView& packet, Psn end) {
  ReorderPool::Slot& s = slot(n);
  s = ReorderPool::Slot{};
  s.bth = packet.bth;
  s.info = packet.info;
  s.payload_bytes = packet.payload_bytes;
  s.end = end;
  s.last = n;
  uint8_t* const bytes = pool_->bytes(n);
  std::memcpy(bytes, packet.ext, packet.info->header_bytes);
  std::memcpy(bytes + packet.info->header_bytes, packet.payload, packet.payload_bytes);
}

ReorderBuffer::Result ReorderBuffer::hold(const PacketView& packet, uint32_t psns, Instant now) {
  const Psn psn = packet.bth.psn;
  const Psn end = psn + psns;
  // The search begins at the end, because a packet that has to be held usually has a newer PSN than those that are.
  uint32_t before = last_run_;
  while (before != kNone && psn.before(slot(before).bth.psn)) before = slot(before).run_before;
  const uint32_t after = before == kNone ? first_run_ : slot(before).run_after;
  if (before != kNone && psn.before(slot(slot(before).last).end)) return Result::kAgain;
  if (after != kNone && slot(after).bth.psn.before(end)) return Result::kAgain;
  while (!may_hold(packet)) {
    if (pool_ == nullptr || !pool_->reclaim(*this, now)) return Result::kFull;
  }
  const uint32_t n = pool_->take();
  store(n, packet, end);
  if (packets_++ != 0) pool_->put_off(*this);
  pool_->put_last(*this);
  arrival_ = now;
  const bool joins_before = before != kNone && slot(slot(before).last).end == psn;
  const bool joins_after = after != kNone && slot(after).bth.psn == end;
  if (joins_before) {
    slot(slot(before).last).next = n;
    slot(before).last = n;
    unlink_age(before);
    if (joins_after) {
      slot(n).next = after;
      slot(before).last = slot(after).last;
      remove_run(after);
    }
    link_newest(before);
  } else if (joins_after) {
    move_run(after, n);
    slot(n).next = after;
    unlink_age(n);
    link_newest(n);
  } else {
    insert_run(n, before, after);
    link_newest(n);
  }
  return Result::kHeld;
}

void ReorderBuffer::insert_run(uint32_t run, uint32_t before, uint32_t after) {
  slot(run).run_before = before;
  slot(run).run_after = after;
  (before == kNone ? first_run_ : slot(before).run_after) = run;
  (after == kNone ? last_run_ : slot(after).run_before) = run;
  // A gap that is split was asked for as a whole, so both parts keep its values.
  if (after != kNone) {
    slot(run).asked_at = slot(after).asked_at;
    slot(run).arrivals = slot(after).arrivals;
  }
}

/// Takes the run out of both lists; its packets stay.
void ReorderBuffer::remove_run(uint32_t run) {
  const uint32_t before = slot(run).run_before;
  const uint32_t after = slot(run).run_after;
  (before == kNone ? first_run_ : slot(before).run_after) = after;
  (after == kNone ? last_run_ : slot(after).run_before) = before;
  unlink_age(run);
}

/// From now on the run begins with the packet `to`, and so has that number.
void ReorderBuffer::move_run(uint32_t from, uint32_t to) {
  ReorderPool::Slot& a = slot(from);
  ReorderPool::Slot& b = slot(to);
  b.last = a.last;
  b.run_before = a.run_before;
  b.run_after = a.run_after;
  b.older = a.older;
  b.newer = a.newer;
  b.asked_at = a.asked_at;
  b.arrivals = a.arrivals;
  (b.run_before == kNone ? first_run_ : slot(b.run_before).run_after) = to;
  (b.run_after == kNone ? last_run_ : slot(b.run_after).run_before) = to;
  if (b.older != kNone) slot(b.older).newer = to;
  (b.newer == kNone ? newest_ : slot(b.newer).older) = to;
}

void ReorderBuffer::link_newest(uint32_t run) {
  slot(run).newer = kNone;
  slot(run).older = newest_;
  if (newest_ != kNone) slot(newest_).newer = run;
  newest_ = run;
}

void ReorderBuffer::unlink_age(uint32_t run) {
  const uint32_t older = slot(run).older;
  const uint32_t newer = slot(run).newer;
  if (older != kNone) slot(older).newer = newer;
  (newer == kNone ? newest_ : slot(newer).older) = older;
}

/// Gives the packet with the lowest PSN back to the pool. There must be one.
void ReorderBuffer::drop_first() {
  const uint32_t n = first_run_;
  if (slot(n).last == n) {
    remove_run(n);
  } else {
    move_run(n, slot(n).next);
  }
  pool_->give_back(n);
  ensure(packets_ != 0, "what is dropped was counted");
  if (--packets_ == 0) pool_->put_off(*this);
}

bool ReorderBuffer::take(Psn psn, PacketView& packet) {
  while (first_run_ != kNone && slot(first_run_).bth.psn.before(psn)) drop_first();
  if (first_run_ == kNone || slot(first_run_).bth.psn != psn) return false;
  const ReorderPool::Slot& s = slot(first_run_);
  packet = PacketView{};
  packet.info = s.info;
  packet.bth = s.bth;
  packet.ext = pool_->bytes(first_run_);
  packet.payload = packet.ext + s.info->header_bytes;
  packet.payload_bytes = s.payload_bytes;
  drop_first();
  return true;
}

void ReorderBuffer::clear() {
  while (first_run_ != kNone) drop_first();
}

SackRange ReorderBuffer::range(uint32_t run) const { return {slot(run).bth.psn, slot(slot(run).last).end}; }

uint32_t ReorderBuffer::recent(std::span<SackRange> ranges) const {
  uint32_t count = 0;
  for (uint32_t run = newest_; run != kNone && count < ranges.size(); run = slot(run).older)
    ranges[count++] = range(run);
  return count;
}

}  // namespace uroce
