// Events of a script's objects, for the script to expect, and the reasons of failures, for the reader of its
// report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "script/manager.h"
#include "script/script_qp.h"
#include "transport/observer.h"

namespace uroce::script {

class ScriptObserver final : public Observer {
 public:
  /// Both outlive it; they are read when something is reported.
  ScriptObserver(ScriptQps& qps, const Instant& now) : qps_(qps), now_(now) {}

  /// Sets the manager that is told when data reaches a queue pair before the end of its handshake.
  void attach(Manager* manager) { manager_ = manager; }
  /// Errors with their causes, in order.
  const std::vector<std::string>& reasons() const { return reasons_; }

  void on_qp_event(Qp& qp, AsyncEvent event) override;
  void on_srq_limit(SharedReceiveQueue& srq) override;
  void on_cq_error(CompletionQueue& cq) override;
  void on_error_completion(const Qp& qp, const Completion& completion) override;
  void on_responder_error(const Qp& qp, Cause cause) override;

 private:
  uint32_t id_of(const Qp& qp) const;

  ScriptQps& qps_;
  const Instant& now_;
  Manager* manager_ = nullptr;
  std::vector<std::string> reasons_;
};

}  // namespace uroce::script
