// What one end has posted, in order: what it still has to post, what is pending, and what nobody knows the end of
// because its connection ended first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "oracle/posted_op.h"

namespace uroce::oracle {

class SendLedger {
 public:
  explicit SendLedger(uint64_t ops) : ops_left_(ops) {}

  // Posting.
  uint64_t ops_left() const { return ops_left_; }
  uint64_t next_wr_id() const { return next_wr_id_; }
  /// Those posted since the last one that asked for a completion.
  uint32_t unsignalled() const { return unsignalled_; }
  uint64_t posted_bytes() const { return posted_bytes_; }
  void push(PostedOp&& op);

  // What is pending.
  bool empty() const { return pending_.empty(); }
  size_t pending() const { return pending_.size(); }
  const PostedOp& oldest() const { return pending_.front(); }
  /// Nothing is pending, and nothing is left to post.
  bool all_done() const { return ops_left_ == 0 && pending_.empty(); }
  /// A pending READ looks at one of these bytes of the peer's memory, now or again later.
  bool reads(uint32_t offset, uint32_t bytes) const;
  /// The oldest is done.
  void retire_oldest();
  /// Of the last one that is known to be done.
  uint64_t last_done() const { return last_done_; }

  // What nobody knows the end of.
  void give_up_oldest();
  void give_up_all();
  /// How many of those were FETCH_ADDs of the shared counter.
  uint64_t unsure_adds() const;
  /// Some of those may have put `byte` at `offset` of the peer's memory, or left it there.
  bool may_explain(uint32_t offset, uint8_t byte) const;
  /// The connection begins anew.
  void restart();
  /// What the peer's memory holds was looked at.
  void forget_unsure() { unsure_.clear(); }

 private:
  std::deque<PostedOp> pending_;
  std::vector<PostedOp> unsure_;
  uint64_t ops_left_;
  uint64_t next_wr_id_ = 1;
  uint64_t last_done_ = 0;
  uint32_t unsignalled_ = 0;
  uint64_t posted_bytes_ = 0;
};

}  // namespace uroce::oracle
