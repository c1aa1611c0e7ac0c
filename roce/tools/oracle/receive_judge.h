// Judges the completions of one end's receives: messages come whole and in the order in which the peer has posted them,
// and nothing is written beside them.
#pragma once

#include "oracle/rc_context.h"
#include "oracle/receiver.h"

namespace uroce::oracle {

class ReceiveJudge {
 public:
  ReceiveJudge(RcContext& context, Receiver& receiver) : c_(context), receiver_(receiver) {}

  void on_completion(const Completion& completion);

 private:
  void check_message(const ExpectedMessage& message, const Receiver::Slot& slot);

  RcContext& c_;
  Receiver& receiver_;
};

}  // namespace uroce::oracle
