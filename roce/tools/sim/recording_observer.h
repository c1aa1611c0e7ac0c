// Keeps everything that an engine reports, for tests to look at.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/neighbour_news.h"
#include "transport/completion_queue.h"
#include "transport/observer.h"

namespace uroce::sim {

class RecordingObserver final : public Observer {
 public:
  struct QpEvent {
    Qp* qp;
    AsyncEvent event;
    bool operator==(const QpEvent&) const = default;
  };
  struct ErrorCompletion {
    const Qp* qp;
    Completion completion;
  };
  struct ResponderError {
    const Qp* qp;
    Cause cause;
  };

  void on_cq_event(CompletionQueue& cq) override { cq_events.push_back(&cq); }
  void on_qp_event(Qp& qp, AsyncEvent event) override { qp_events.push_back({&qp, event}); }
  void on_cq_error(CompletionQueue& cq) override { cq_errors.push_back(&cq); }
  void on_srq_limit(SharedReceiveQueue& srq) override { srq_limits.push_back(&srq); }
  void on_error_completion(const Qp& qp, const Completion& completion) override {
    error_completions.push_back({&qp, completion});
  }
  void on_neighbour_news(const NeighbourNews& news) override { neighbour_news.push_back(news); }
  void on_responder_error(const Qp& qp, Cause cause) override { responder_errors.push_back({&qp, cause}); }

  std::vector<CompletionQueue*> cq_events;
  std::vector<QpEvent> qp_events;
  std::vector<CompletionQueue*> cq_errors;
  std::vector<SharedReceiveQueue*> srq_limits;
  std::vector<ErrorCompletion> error_completions;
  std::vector<ResponderError> responder_errors;
  std::vector<NeighbourNews> neighbour_news;
};

}  // namespace uroce::sim
