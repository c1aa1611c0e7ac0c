#include "oracle/landing.h"

#include <cstring>

#include "base/check.h"
#include "oracle/receiver.h"

namespace uroce::oracle {

namespace {

constexpr uint32_t kGap = 8;  // between pieces

}  // namespace

Landing::Landing(const sim::Side& side, uint32_t bytes) : memory_(side.buffer(bytes)) { clear(); }

void Landing::clear() {
  std::memset(memory_.data(), Receiver::kCanary, memory_.size);
  head_ = tail_ = 0;
}

bool Landing::take(Place& place, uint32_t bytes, RandomSource& random) {
  const uint32_t count = bytes == 8 ? 1 : 1 + random.below(4);
  const uint32_t room = bytes + (count + 1) * kGap;
  uint64_t start = head_;
  if (start % memory_.size + room > memory_.size) start += memory_.size - start % memory_.size;
  if (start + room - tail_ > memory_.size) return false;
  auto at = static_cast<uint32_t>(start % memory_.size) + kGap;
  for (uint32_t left = bytes, i = 1; i <= count; i++) {
    const uint32_t length = i == count ? left : random.below(left + 1);
    place.pieces.push_back({at, length});
    at += length + kGap;
    left -= length;
  }
  head_ = place.end = start + room;
  ensure(head_ - tail_ <= memory_.size, "no more is in use than there is");
  return true;
}

void Landing::give_back(const Place& place) {
  ensure(place.end > tail_ && place.end <= head_, "room is given back in the order in which it was taken");
  tail_ = place.end;
}

bool Landing::gaps_hold(const Span& piece) const {
  const uint8_t* const from = data(piece);
  for (uint32_t i = 0; i < kGap; i++) {
    if (from[piece.bytes + i] != Receiver::kCanary || *(from - 1 - i) != Receiver::kCanary) return false;
  }
  return true;
}

void Landing::wipe(const Span& piece) { std::memset(memory_.data() + piece.offset, Receiver::kCanary, piece.bytes); }

}  // namespace uroce::oracle
