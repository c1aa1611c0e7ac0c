// Finds the flows that match a frame, however many there are.
//
// Flows with the same mask look at the same bits, so they are in one table, keyed by the value of these bits: a frame
// is looked up once for each mask that any flow has. So the cost depends on the number of different masks.
//
// Nothing is allocated for a frame. The flows are their owner's, and do not change while they are here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "packet/flow_key.h"

namespace uroce {

struct FlowRule;

class FlowRuleIndex {
 public:
  /// Adds it behind the flows of its priority. When memory runs out, it is not added.
  void add(const FlowRule& flow);
  void remove(const FlowRule& flow);
  /// Calls `f(flow)` for each flow that matches: first those of the lowest priority number, of these the ones that were
  /// added first; until `f` returns false.
  template <typename F>
  void for_each_match(const FlowKey& key, F&& f) {
    find_chains(key);
    while (!found_.empty()) {
      std::pop_heap(found_.begin(), found_.end(), comes_later);
      Position& at = found_.back();
      if (!f(*at.next->flow)) return;
      if (++at.next == at.end) {
        found_.pop_back();
      } else {
        std::push_heap(found_.begin(), found_.end(), comes_later);
      }
    }
  }
  size_t masks() const { return tables_.size(); }

 private:
  struct Entry {
    uint32_t priority = 0;
    uint64_t number = 0;  // in the order in which they were added
    const FlowRule* flow = nullptr;
  };
  using Chain = std::vector<Entry>;  // by priority, then by number
  struct Hash {
    size_t operator()(const FlowKey& key) const;
  };
  struct Equal {
    bool operator()(const FlowKey& a, const FlowKey& b) const { return std::memcmp(&a, &b, sizeof a) == 0; }
  };
  struct Table {
    explicit Table(const FlowKey& its_mask) : mask(its_mask) {}
    const FlowKey mask;
    std::unordered_map<FlowKey, Chain, Hash, Equal> chains;
  };
  /// How far a chain has been read.
  struct Position {
    const Entry* next;
    const Entry* end;
  };

  static bool comes_before(const Entry& a, const Entry& b) {
    return a.priority != b.priority ? a.priority < b.priority : a.number < b.number;
  }
  static bool comes_later(const Position& a, const Position& b) { return comes_before(*b.next, *a.next); }
  void find_chains(const FlowKey& key);

  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<Position> found_;  // a heap, with room for one of each table
  uint64_t last_number_ = 0;
};

}  // namespace uroce
