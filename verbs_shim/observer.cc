// Turns the engine's events into completion channel events, async events, and log lines.
//
// Called in the middle of a turn, under the engine's lock: nothing here calls the engine.
#include "transport/observer.h"
#include "dpdk/endpoint_cm.h"
#include "dpdk/log.h"
#include "engine/neighbour_news.h"
#include "objects.h"
#include "raw.h"
#include "runtime.h"
#include "transport/completion_queue.h"
#include "transport/qp.h"
#include "transport/receive_queue.h"
#include "xrc.h"

namespace uroce::verbs {

static_assert(static_cast<int>(AsyncEvent::kCqErr) == IBV_EVENT_CQ_ERR);
static_assert(static_cast<int>(AsyncEvent::kQpFatal) == IBV_EVENT_QP_FATAL);
static_assert(static_cast<int>(AsyncEvent::kQpReqErr) == IBV_EVENT_QP_REQ_ERR);
static_assert(static_cast<int>(AsyncEvent::kQpAccessErr) == IBV_EVENT_QP_ACCESS_ERR);
static_assert(static_cast<int>(AsyncEvent::kCommEst) == IBV_EVENT_COMM_EST);
static_assert(static_cast<int>(AsyncEvent::kSqDrained) == IBV_EVENT_SQ_DRAINED);
static_assert(static_cast<int>(AsyncEvent::kPortActive) == IBV_EVENT_PORT_ACTIVE);
static_assert(static_cast<int>(AsyncEvent::kPortErr) == IBV_EVENT_PORT_ERR);
static_assert(static_cast<int>(AsyncEvent::kSrqLimitReached) == IBV_EVENT_SRQ_LIMIT_REACHED);
static_assert(static_cast<int>(AsyncEvent::kQpLastWqeReached) == IBV_EVENT_QP_LAST_WQE_REACHED);
static_assert(static_cast<int>(AsyncEvent::kGidChange) == IBV_EVENT_GID_CHANGE);

namespace {

class ShimObserver final : public Observer {
 public:
  void on_cq_event(CompletionQueue& queue) override {
    Cq& cq = *static_cast<Cq*>(queue.user());
    if (cq.channel == nullptr) return;
    cq.events_raised++;
    ours(cq.channel).push(cq);
  }

  void on_qp_event(Qp& qp, AsyncEvent kind) override {
    if (kind == AsyncEvent::kQpFatal) {
      log_message(LogLevel::kError, "QP 0x%06x (%s) goes to error: %s", qp.qpn(), qp_type_name(qp.type()),
                  cause_text(Cause::kCqOverrun));
    }
    if (kind == AsyncEvent::kCommEst) endpoint().connections().note_established(qp.qpn());
    if (qp.type() == QpType::kXrcRecv) {
      for (QueuePair* handle : static_cast<XrcTarget*>(qp.user())->handles) push_to(*handle, kind);
    } else {
      push_to(*static_cast<QueuePair*>(qp.user()), kind);
    }
  }

  void on_port_event(AsyncEvent kind) override {
    ibv_async_event event{};
    event.element.port_num = 1;
    event.event_type = static_cast<ibv_event_type>(kind);
    push_to_contexts(event);
  }

  void on_cq_error(CompletionQueue& queue) override {
    Cq& cq = *static_cast<Cq*>(queue.user());
    log_message(LogLevel::kError, "a completion queue of %u entries overflowed: completions are lost",
                queue.capacity());
    ibv_async_event event{};
    event.element.cq = cq.base();
    event.event_type = IBV_EVENT_CQ_ERR;
    ours(cq.context).async.push(event);
  }

  void on_srq_limit(SharedReceiveQueue& queue) override {
    Srq& srq = *static_cast<Srq*>(queue.user());
    ibv_async_event event{};
    event.element.srq = &srq;
    event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
    ours(srq.context).async.push(event);
  }

  void on_error_completion(const Qp& qp, const Completion& completion) override {
    const bool flushed = completion.status == WcStatus::kWrFlushErr;
    if (flushed && qp.type() != QpType::kXrcRecv) static_cast<QueuePair*>(qp.user())->flushed++;
    log_message(flushed ? LogLevel::kDebug : LogLevel::kWarning, "QP 0x%06x (%s), wr_id %llu: %s: %s", qp.qpn(),
                qp_type_name(qp.type()), static_cast<unsigned long long>(completion.wr_id),
                wc_status_name(completion.status), cause_text(completion.cause));
  }

  /// The program's structure may have the new key already (for a window of type 1 since the bind was posted). Then the
  /// window's real key is restored in it, unless a later bind has set another one, which will be the window's key.
  void on_bind_error(void* window, const MwBind& bind, uint32_t key) override {
    Mw& mw = *static_cast<Mw*>(window);
    if (mw.rkey == bind.new_rkey) mw.rkey = key;
  }

  void on_responder_error(const Qp& qp, Cause cause) override {
    log_message(LogLevel::kWarning, "QP 0x%06x (%s) refused a request of its peer: %s", qp.qpn(),
                qp_type_name(qp.type()), cause_text(cause));
  }

  void on_neighbour_news(const NeighbourNews& news) override {
    log_message(LogLevel::kWarning, "%s", to_string(news).c_str());
  }

 private:
  static void push_to(QueuePair& pair, AsyncEvent kind) {
    ibv_async_event event{};
    event.element.qp = pair.base();
    event.event_type = static_cast<ibv_event_type>(kind);
    if (pair.wq != nullptr) {
      event.element.wq = pair.wq;
      event.event_type = IBV_EVENT_WQ_FATAL;  // the only event of a work queue
    }
    ours(pair.base()->context).async.push(event);
  }
};

}  // namespace

std::unique_ptr<Observer> make_observer() { return std::make_unique<ShimObserver>(); }

}  // namespace uroce::verbs
