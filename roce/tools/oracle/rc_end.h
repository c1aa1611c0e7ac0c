// One end of a reliable connection under test: posts mixed operations to its peer, and knows what each must do. Its
// parts post (OperationDrawer) and judge (SendJudge, ReceiveJudge); here are its beginnings and its ends.
#pragma once

#include <cstdint>
#include <string>

#include "oracle/operation_drawer.h"
#include "oracle/rc_context.h"
#include "oracle/receive_judge.h"
#include "oracle/send_judge.h"

namespace uroce::oracle {

class RcEnd {
 public:
  RcEnd(const sim::Side& side, Receiver& receiver, HostShare& share, const MixedOptions& options, uint64_t seed,
        uint64_t ops, Verdict& verdict);
  RcEnd(const RcEnd&) = delete;
  RcEnd& operator=(const RcEnd&) = delete;

  void set_peer(RcEnd& peer) { context_.peer = &peer.context_; }
  Qp& qp() { return *context_.side.qp; }
  const Qp& qp() const { return *context_.side.qp; }
  const sim::Buffer& target() const { return context_.target.memory(); }

  /// Posts what there is room for.
  void post_some() { drawer_.post_some(); }
  void on_sent(const Completion& completion) { send_judge_.on_completion(completion); }
  void on_received(const Completion& completion) { receive_judge_.on_completion(completion); }
  bool done() const { return !context_.stopped && !context_.broken && idle() && context_.messages.empty(); }
  bool waits() const { return !context_.stopped && !context_.sends.empty(); }
  bool idle() const { return context_.sends.all_done(); }
  /// At the very end: memory is what the model says.
  void check_memory();
  uint64_t posted_bytes() const { return context_.sends.posted_bytes(); }
  uint64_t received() const { return context_.messages.received(); }
  std::string state() const;

  // When a connection ends before its time.
  /// The QP gave up, as far as its completions have told.
  bool broken() const { return context_.broken; }
  /// It is silenced on purpose: everything flushed from now on is in order. `vanished`: without a word.
  void stop(bool vanished);
  /// All completions are here, and nothing more can happen to the memory: it must be what some part of the operations
  /// that are not known to be done, or all, or none, have made of it. Both ends, before either's `restart`.
  void check_broken();
  void restart();
  void set_qp(Qp& qp) { context_.side.qp = &qp; }
  /// Its engine is another one.
  void move_to(const sim::Side& side);

 private:
  RcContext context_;
  OperationDrawer drawer_;
  SendJudge send_judge_;
  ReceiveJudge receive_judge_;
};

}  // namespace uroce::oracle
