#include "oracle/receiver.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "base/check.h"

namespace uroce::oracle {

Receiver::Receiver(const sim::Side& side, SharedReceiveQueue* srq, uint32_t slots, uint32_t bytes, RandomSource& random)
    : side_(side), srq_(srq), random_(random), slots_(slots), lazy_percent_(random.below(100)) {
  for (uint32_t i = 0; i < slots; i++) {
    const uint32_t pieces = 1 + random.below(4);
    Slot& slot = slots_[i];
    slot.buffer = side.buffer(bytes + pieces * kGuardBytes);
    std::memset(slot.buffer.data(), kCanary, slot.buffer.size);
    uint32_t at = 0;
    uint32_t left = bytes;
    for (uint32_t p = 1; p <= pieces; p++) {
      const uint32_t length = p == pieces ? left : random.below(std::min(left, 5000u) + 1);
      slot.sges.push_back(slot.buffer.sge(at, length));
      at += length + kGuardBytes;
      left -= length;
    }
    free_.push_back(i);
  }
}

void Receiver::post_one(uint32_t index, Verdict& verdict) {
  Slot& slot = slots_[index];
  ensure(!slot.posted, "a receive is posted once");
  const RecvWr wr{index, slot.sges.data(), static_cast<uint32_t>(slot.sges.size())};
  const PostResult result =
      srq_ != nullptr ? srq_->post(wr) : side_.engine().post_recv(*side_.qp, wr, side_.host->now());
  if (result != PostResult::kOk) return verdict.fail("a receive was refused (%d)", static_cast<int>(result));
  slot.posted = true;
  posted_.push_back(index);
}

void Receiver::post(bool all, Verdict& verdict) {
  if (!all && random_.below(100) < lazy_percent_) return;
  uint32_t count = static_cast<uint32_t>(free_.size());
  if (!all && count != 0) count = random_.below(count + 1);
  for (; count > 0; count--) {
    post_one(free_.front(), verdict);
    free_.pop_front();
  }
}

Receiver::Slot* Receiver::complete(uint64_t wr_id, Verdict& verdict) {
  // A shared queue's receives complete in the order in which messages end, not in which they began.
  const auto at = srq_ != nullptr ? std::find(posted_.begin(), posted_.end(), wr_id) : posted_.begin();
  if (at == posted_.end() || *at != wr_id) {
    verdict.fail("receive %" PRIu64 " completed, which is not the oldest one posted", wr_id);
    return nullptr;
  }
  posted_.erase(at);
  ensure(slots_[wr_id].posted, "a receive that completes was posted");
  slots_[wr_id].posted = false;
  return &slots_[wr_id];
}

std::pair<const uint8_t*, uint32_t> Receiver::find(const Slot& slot, uint32_t offset) {
  for (const Sge& sge : slot.sges) {
    if (offset < sge.length) return {reinterpret_cast<const uint8_t*>(sge.addr) + offset, sge.length - offset};
    offset -= sge.length;
  }
  return {nullptr, 0};
}

bool Receiver::rest_untouched(const Slot& slot, uint32_t used_bytes, bool restarted) {
  const auto clean = [](const uint8_t* from, uint32_t bytes) {
    return std::all_of(from, from + bytes, [](uint8_t b) { return b == kCanary; });
  };
  for (const Sge& sge : slot.sges) {
    const uint32_t here = std::min(used_bytes, sge.length);
    const auto* start = reinterpret_cast<const uint8_t*>(sge.addr);
    if (!restarted && here != sge.length && !clean(start + here, std::min(kGuardBytes, sge.length - here)))
      return false;
    if (!clean(start + sge.length, kGuardBytes)) return false;
    used_bytes -= here;
  }
  return true;
}

void Receiver::make_free(const Slot& slot) {
  ensure(!slot.posted && free_.size() < slots_.size(), "a receive is free once, and not while it is posted");
  free_.push_back(static_cast<uint32_t>(&slot - slots_.data()));
}

void Receiver::wipe(Slot& slot) {
  std::memset(slot.buffer.data(), kCanary, slot.buffer.size);
  make_free(slot);
}

void Receiver::take_back() {
  for (const uint64_t index : posted_) {
    slots_[index].posted = false;
    wipe(slots_[index]);
  }
  posted_.clear();
}

void Receiver::move_to(const sim::Side& side, SharedReceiveQueue* srq) {
  take_back();
  side_ = side;
  srq_ = srq;
  for (Slot& slot : slots_) {
    side_.register_again(slot.buffer);
    for (Sge& sge : slot.sges) sge.lkey = slot.buffer.key;
  }
}

void Receiver::recycle(Slot& slot, uint32_t used_bytes) {
  for (const Sge& sge : slot.sges) {
    const uint32_t here = std::min(used_bytes, sge.length);
    std::memset(reinterpret_cast<uint8_t*>(sge.addr), kCanary, here);
    used_bytes -= here;
  }
  make_free(slot);
}

}  // namespace uroce::oracle
