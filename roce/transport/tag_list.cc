#include "transport/tag_list.h"

#include <algorithm>

#include "base/check.h"

namespace uroce {

TagList::TagList(uint32_t capacity) : places_(capacity), sges_(size_t{capacity} * kSgesMax) {
  ensure(capacity <= kCapacityMax, "a place's number has 16 bits");
  for (uint32_t i = capacity; i-- > 0;) {
    places_[i].next = free_;
    free_ = static_cast<uint16_t>(i);
  }
}

uint32_t TagList::add(const TaggedReceive& receive) {
  if (free_ == kNone) return 0;
  ensure(receive.num_sge <= kSgesMax, "the elements of a receive fit its place");
  const uint16_t at = free_;
  Place& place = places_[at];
  free_ = place.next;
  place.receive = receive;
  Sge* const sges = &sges_[size_t{at} * kSgesMax];
  std::copy_n(receive.sges, receive.num_sge, sges);
  place.receive.sges = sges;
  place.generation = place.generation == 0xFFFF ? 1 : static_cast<uint16_t>(place.generation + 1);
  place.listed = true;
  place.next = kNone;
  place.previous = last_;
  (last_ != kNone ? places_[last_].next : first_) = at;
  last_ = at;
  size_++;
  return uint32_t{place.generation} << 16 | at;
}

bool TagList::remove(uint32_t handle) {
  const auto at = static_cast<uint16_t>(handle);
  if (at >= places_.size() || !places_[at].listed || places_[at].generation != handle >> 16) return false;
  unlink(at);
  return true;
}

const TaggedReceive* TagList::take(uint64_t tag) {
  const uint16_t at = find(tag);
  if (at == kNone) return nullptr;
  unlink(at);
  return &places_[at].receive;
}

uint16_t TagList::find(uint64_t tag) const {
  uint16_t at = first_;
  while (at != kNone && (tag & places_[at].receive.mask) != places_[at].receive.tag) at = places_[at].next;
  return at;
}

void TagList::unlink(uint16_t at) {
  Place& place = places_[at];
  (place.previous != kNone ? places_[place.previous].next : first_) = place.next;
  (place.next != kNone ? places_[place.next].previous : last_) = place.previous;
  place.listed = false;
  place.next = free_;
  free_ = at;
  size_--;
}

}  // namespace uroce
