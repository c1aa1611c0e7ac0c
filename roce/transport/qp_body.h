// What a queue pair is made of. Only qp.cc and its neighbours know it: whoever uses a queue pair (qp.h) is compiled
// without the protocol.
#pragma once

#include <cstdint>
#include <memory>

#include "transport/peer_link.h"
#include "transport/qp_context.h"
#include "transport/qp_services.h"
#include "transport/receive_queue.h"
#include "transport/send_queue.h"
#include "uroce/time.h"

namespace uroce {

struct QpBody {
  QpBody(Qp& owner, const QpInit& how, uint32_t qpn, uint32_t mtu_most, TransportEnv& env, QpService its_service);
  virtual ~QpBody() = default;
  QpBody(const QpBody&) = delete;
  QpBody& operator=(const QpBody&) = delete;

  /// Makes all allocations of a transition before anything changes, so that a lack of memory leaves the QP as it was.
  void make_room(const QpAttributes& attributes, uint32_t mask, QpState to);
  void apply(const QpAttributes& attributes, uint32_t mask, const Route* path, bool resolved, Instant now);
  void enter(QpState to, Instant now);
  void forget_work();
  /// Completes the work requests of both queues as flushed, each queue in order.
  void flush(Instant now);
  /// The outcome of a call takes effect at its end: the QP or its send queue goes to error, or the send queue is
  /// drained.
  void settle(Outcome outcome, Instant now) {
    if (outcome != Outcome::kGoesOn || draining) change_state(outcome, now);
  }

  // qp_congestion.cc
  void restart_congestion();
  PollResult transmit_paced(TxFrame& frame, Instant now);
  bool wants_unpaced() const;
  bool wants_paced() const;

  QpContext context;
  SendQueue sends;
  ReceiveQueue receives;
  const QpService service;
  PeerLink link;
  const QpInit init;
  const uint32_t port_mtu;
  Instant cnp_allowed_at{0};
  bool draining = false;

 private:
  void change_state(Outcome outcome, Instant now);
  void check_drained();
  void set_headers(const Route& path);  // qp_congestion.cc
};

/// The body of a queue pair of that type. Its service is in the same piece of memory.
std::unique_ptr<QpBody> make_body(Qp& owner, const QpInit& how, uint32_t qpn, uint32_t mtu_most, TransportEnv& env);

}  // namespace uroce
