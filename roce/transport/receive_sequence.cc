#include "transport/receive_sequence.h"

namespace uroce {

void ReceiveSequence::start(Psn first) {
  reset();
  next_ = first;
}

void ReceiveSequence::reset() {
  msn_ = reads_last_ = 0;
  silent_ = missed_ = false;
}

ReceiveSequence::Gap ReceiveSequence::on_dropped(Psn psn) {
  if (!missed_ || missed_until_.before(psn)) missed_until_ = psn;
  missed_ = true;
  if (silent_) return Gap::kKnown;
  silent_ = true;
  return Gap::kNew;
}

ReceiveSequence::Nak ReceiveSequence::review_nak() {
  if (!missed_) return Nak::kObsolete;
  silent_ = true;
  return Nak::kTrue;
}

void ReceiveSequence::go_back(Psn next, uint32_t msn) {
  next_ = next;
  msn_ = msn;
}

}  // namespace uroce
