// The receives that wait for a message with their tag, in the order in which they were added.
//
// All memory is taken when the list is made. A message gets the oldest receive that matches, which is found by looking
// at one after the other: receives with masks can be found in no other order.
#pragma once

#include <cstdint>
#include <vector>

#include "uroce/work_request.h"

namespace uroce {

struct TaggedReceive {
  uint64_t wr_id = 0;
  uint64_t tag = 0;
  uint64_t mask = 0;  // it takes a message whose tag, with this mask, is `tag`
  const Sge* sges = nullptr;
  uint32_t num_sge = 0;
};

class TagList {
 public:
  static constexpr uint32_t kCapacityMax = 1024;
  static constexpr uint32_t kSgesMax = 4;

  /// At most kCapacityMax receives.
  explicit TagList(uint32_t capacity);

  uint32_t capacity() const { return static_cast<uint32_t>(places_.size()); }
  uint32_t size() const { return size_; }
  /// Copies the receive, whose elements are at most kSgesMax, behind all others. Returns its handle, which is never 0
  /// and does not come back soon; 0 when the list is full.
  uint32_t add(const TaggedReceive& receive);
  /// False: there is no such receive any more.
  bool remove(uint32_t handle);
  /// Whether some receive matches.
  bool has(uint64_t tag) const { return find(tag) != kNone; }
  /// Takes the oldest receive that matches out of the list. It is valid until the next is added; nullptr: none matches.
  const TaggedReceive* take(uint64_t tag);

 private:
  static constexpr uint16_t kNone = 0xFFFF;

  struct Place {
    TaggedReceive receive;
    uint16_t generation = 0;  // of the handle
    uint16_t next = kNone;    // in the list, or among the free ones
    uint16_t previous = kNone;
    bool listed = false;
  };

  uint16_t find(uint64_t tag) const;
  void unlink(uint16_t place);

  std::vector<Place> places_;
  std::vector<Sge> sges_;  // kSgesMax of each place
  uint16_t first_ = kNone;
  uint16_t last_ = kNone;
  uint16_t free_ = kNone;
  uint32_t size_ = 0;
};

}  // namespace uroce
