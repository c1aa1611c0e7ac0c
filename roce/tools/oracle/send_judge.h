// Judges the completions of one end's work requests: each that asked for one gets one, in order, with the data that it
// must bring; and when the QP gives up, it had a reason to, and flushes everything behind.
#pragma once

#include "oracle/rc_context.h"

namespace uroce::oracle {

class SendJudge {
 public:
  explicit SendJudge(RcContext& context) : c_(context) {}

  void on_completion(const Completion& completion);

 private:
  void on_failed(const Completion& completion);
  bool retire_before(const Completion& completion);
  void retire_oldest();
  void check_landing(const PostedOp& op);

  RcContext& c_;
};

}  // namespace uroce::oracle
