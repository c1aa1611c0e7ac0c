// What a QP's requester and responder share: its numbers, its path, its queues' completions, and what lies below.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "congestion/congestion_control.h"
#include "transport/completion_queue.h"
#include "transport/counters.h"
#include "transport/loss_recovery.h"
#include "transport/memory_table.h"
#include "transport/observer.h"
#include "transport/qp_attributes.h"
#include "transport/reorder_buffer.h"
#include "wire/path_header.h"

namespace uroce {

/// The engine's side of a QP. One for all QPs of an engine.
struct TransportEnv {
  MemoryTable& memory;
  Counters& counters;
  Observer& observer;
  uint32_t window_packets = 128;
  uint32_t ack_every = 32;
  Duration ack_hold = microseconds(20);
  bool grant_credits = true;  // tell the peer in ACKs how many receives are posted
  CongestionConfig congestion = {};
  LossRecovery loss_recovery = LossRecovery::kGoBackN;
  ReorderPool* reorder_pool = nullptr;  // needed unless loss_recovery is kGoBackN
};

struct QpContext {
  QpContext(Qp& owner, const QpInit& init, uint32_t number, TransportEnv& environment)
      : qp(owner),
        env(environment),
        type(init.type),
        qpn(number),
        pd(init.pd),
        send_cq(*init.send_cq),
        recv_cq(*init.recv_cq),
        srq(init.srq),
        peer(init.type == QpType::kRc ? init.loss_recovery.value_or(environment.loss_recovery)
                                      : LossRecovery::kGoBackN) {}

  Qp& qp;
  TransportEnv& env;
  const QpType type;
  const uint32_t qpn;
  const PdId pd;
  CompletionQueue& send_cq;
  CompletionQueue& recv_cq;
  SharedReceiveQueue* const srq;

  QpState state = QpState::kReset;
  QpAttributes attributes;
  uint32_t mtu = 1024;
  PathSpec path;
  PathHeader header;
  PathHeader data_header;  // of packets with payload: the same, but a switch may mark them (ECT) if the QP heeds marks
  bool path_resolved = false;
  PeerRecognition peer;
  Signature peer_signature;  // of the packets that the peer sends, if it signs them

  /// Set by requester or responder when the QP has to go to error; Qp does it before its call returns.
  bool failed = false;
  /// A completion was lost because its queue was full; said once, with an event.
  bool completion_lost = false;
  /// UD and UC: the send queue alone is in error (SQE).
  bool send_queue_failed = false;

  CongestionControl* congestion = nullptr;   // none: the QP sends as fast as it can
  bool congestion_news = false;              // it may have changed its mind
  uint32_t window_cap_packets = UINT32_MAX;  // what it allows in flight

  void on_rtt(std::optional<Duration> rtt, Instant now) {
    if (!rtt || congestion == nullptr) return;
    congestion->on_rtt(*rtt, now);
    congestion_news = true;
  }
  void on_loss(Instant now) {
    if (congestion == nullptr) return;
    congestion->on_loss(now);
    congestion_news = true;
  }

  void on_bind_error(const MwBind& bind) {
    const MemoryRegion* window = env.memory.window(bind.mw_rkey);
    if (window != nullptr) env.observer.on_bind_error(window->user, bind, window->key);
  }

  Counters& counters() { return env.counters; }

  /// Counts, explains and queues; `queue` is where the work request was posted. `solicited` matters to receive queues
  /// only.
  void complete(CompletionQueue& cq, WorkQueueSlots& queue, Completion& completion, bool solicited, Instant now);
};

}  // namespace uroce
