// The messages that must arrive at one end, in the order in which its peer has posted them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "oracle/posted_op.h"

namespace uroce::oracle {

class MessageLedger {
 public:
  void expect(ExpectedMessage&& message);
  bool empty() const { return messages_.empty(); }
  size_t size() const { return messages_.size(); }
  const ExpectedMessage& oldest() const { return messages_.front(); }
  /// The oldest has arrived.
  void take_oldest();
  /// A message of a work request up to that one has not arrived.
  bool misses(uint64_t wr_id) const { return !messages_.empty() && messages_.front().wr_id <= wr_id; }
  uint64_t received() const { return received_; }
  /// The connection begins anew: none of these will come.
  void restart() { messages_.clear(); }

 private:
  std::deque<ExpectedMessage> messages_;
  uint64_t last_expected_ = 0;  // of the peer's work requests
  uint64_t received_ = 0;
};

}  // namespace uroce::oracle
