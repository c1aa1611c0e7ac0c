// The implementation of the library's Device and all that it makes: the engine, and the listener of its events.
#pragma once

#include <memory>
#include <vector>

#include "base/random.h"
#include "engine/engine.h"
#include "transport/observer.h"
#include "uroce/events.h"
#include "uroce/handle.h"

namespace uroce {
class Endpoint;
}

namespace uroce::rdma {

struct DeviceCore final : Observer {
  explicit DeviceCore(EventListener* who) : listener(who) {}

  void on_cq_event(uroce::CompletionQueue& cq) override;
  void on_qp_event(Qp& qp, AsyncEvent event) override;
  void on_port_event(AsyncEvent event) override;
  void on_cq_error(uroce::CompletionQueue& cq) override;
  void on_srq_limit(uroce::SharedReceiveQueue& srq) override;
  void on_error_completion(const Qp& qp, const Completion& completion) override;
  void on_responder_error(const Qp& qp, Cause cause) override;

  EventListener* listener;  // may be null
  std::unique_ptr<RandomSource> random;
  std::unique_ptr<uroce::Engine> owned;  // nullptr: it belongs to an endpoint
  uroce::Engine* engine = nullptr;
  ConnectionsCore* connections = nullptr;  // of the endpoint, once there are any
  uroce::Endpoint* endpoint = nullptr;     // the endpoint that the engine belongs to, or nullptr
  Instant told{0};                         // the time of the last turn, for devices without a clock
  /// The current time: an endpoint has a clock; without one it is the time of the last turn.
  Instant now() const;

  // Protection domains, by number.
  std::vector<bool> pds;
  bool has(PdId pd) const { return pd < pds.size() && pds[pd]; }
};

// Between the object that a handle holds and the type that stands for it in the public headers.
inline uroce::CompletionQueue* real(HeldCompletionQueue* held) {
  return reinterpret_cast<uroce::CompletionQueue*>(held);
}
inline uroce::SharedReceiveQueue* real(HeldSharedReceiveQueue* held) {
  return reinterpret_cast<uroce::SharedReceiveQueue*>(held);
}
inline Qp* real(HeldQueuePair* held) { return reinterpret_cast<Qp*>(held); }
inline HeldCompletionQueue* held(uroce::CompletionQueue* real) { return reinterpret_cast<HeldCompletionQueue*>(real); }
inline HeldSharedReceiveQueue* held(uroce::SharedReceiveQueue* real) {
  return reinterpret_cast<HeldSharedReceiveQueue*>(real);
}
inline HeldQueuePair* held(Qp* real) { return reinterpret_cast<HeldQueuePair*>(real); }

}  // namespace uroce::rdma
