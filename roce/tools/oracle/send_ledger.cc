#include "oracle/send_ledger.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace uroce::oracle {

void SendLedger::push(PostedOp&& op) {
  ensure(ops_left_ != 0, "no more is posted than was asked for");
  ensure(op.wr_id == next_wr_id_, "work requests are numbered in the order in which they are posted");
  ensure(op.before.size() == op.after.size(), "what a work request changes is known before and after");
  ops_left_--;
  next_wr_id_++;
  unsignalled_ = op.signalled ? 0 : unsignalled_ + 1;
  posted_bytes_ += op.bytes;
  pending_.push_back(std::move(op));
}

bool SendLedger::reads(uint32_t offset, uint32_t bytes) const {
  return std::any_of(pending_.begin(), pending_.end(), [&](const PostedOp& op) {
    return op.opcode == WrOpcode::kRdmaRead && offset < op.remote_offset + op.bytes &&
           op.remote_offset < offset + bytes;
  });
}

void SendLedger::retire_oldest() {
  ensure(!pending_.empty(), "only what is pending can be done");
  ensure(pending_.front().wr_id > last_done_, "work requests are done in the order in which they were posted");
  last_done_ = pending_.front().wr_id;
  pending_.pop_front();
}

void SendLedger::give_up_oldest() {
  ensure(!pending_.empty(), "only what is pending can be given up");
  unsure_.push_back(std::move(pending_.front()));
  pending_.pop_front();
}

void SendLedger::give_up_all() {
  while (!pending_.empty()) give_up_oldest();
}

uint64_t SendLedger::unsure_adds() const {
  return static_cast<uint64_t>(
      std::count_if(unsure_.begin(), unsure_.end(), [](const PostedOp& op) { return op.shared_counter; }));
}

bool SendLedger::may_explain(uint32_t offset, uint8_t byte) const {
  return std::any_of(unsure_.begin(), unsure_.end(), [&](const PostedOp& op) {
    const uint32_t at = offset - op.changed_offset;
    return at < op.after.size() && (op.before[at] == byte || op.after[at] == byte);
  });
}

void SendLedger::restart() {
  ensure(pending_.empty(), "a connection begins anew with nothing under way");
  unsignalled_ = 0;
}

}  // namespace uroce::oracle
