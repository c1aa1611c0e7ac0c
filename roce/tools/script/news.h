// What the engine tells of a script's objects: events, for the script to expect, and why things went wrong, for whoever
// reads its report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "script/manager.h"
#include "script/script_qp.h"

namespace uroce::script {

class News final : public Observer {
 public:
  /// Both outlive it; they are looked at when something is told.
  News(ScriptQps& qps, const Instant& now) : qps_(qps), now_(now) {}

  /// Is told of queue pairs that data came to before their handshake's end.
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
