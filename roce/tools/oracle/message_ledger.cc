#include "oracle/message_ledger.h"

#include <utility>

#include "base/check.h"

namespace uroce::oracle {

void MessageLedger::expect(ExpectedMessage&& message) {
  ensure(message.wr_id > last_expected_, "messages are expected in the order in which they are posted");
  last_expected_ = message.wr_id;
  messages_.push_back(std::move(message));
}

void MessageLedger::take_oldest() {
  ensure(!messages_.empty(), "only what was expected is taken");
  messages_.pop_front();
  received_++;
}

}  // namespace uroce::oracle
