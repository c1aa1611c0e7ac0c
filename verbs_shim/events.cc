// Async events.
#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <new>

#include "base/no_cancel.h"
#include "base/out_of_memory.h"
#include "dpdk/log.h"
#include "objects.h"
#include "raw.h"
#include "runtime.h"

using namespace uroce;
using namespace uroce::verbs;

namespace {

/// The object that an event is about: the structure with its acknowledgements, and the count of its events that were
/// taken.
struct Subject {
  pthread_mutex_t* mutex = nullptr;
  pthread_cond_t* cond = nullptr;
  uint32_t* acknowledged = nullptr;
  uint32_t* taken = nullptr;
};

Subject subject_of(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR: {
      Cq& cq = ours(event.element.cq);
      return {&cq.mutex, &cq.cond, &cq.async_events_completed, &cq.async_taken};
    }
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED: {
      ibv_qp* qp = event.element.qp;
      return {&qp->mutex, &qp->cond, &qp->events_completed, &ours(qp).async_taken};
    }
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: {
      ibv_srq* srq = event.element.srq;
      return {&srq->mutex, &srq->cond, &srq->events_completed, &ours(srq).async_taken};
    }
    case IBV_EVENT_WQ_FATAL: {
      ibv_wq* wq = event.element.wq;
      return {&wq->mutex, &wq->cond, &wq->events_completed, &ours(wq).async_taken};
    }
    default:
      return {};
  }
}

bool is_about(const ibv_async_event& event, const void* object) {
  return subject_of(event).mutex != nullptr && event.element.qp == object;
}

}  // namespace

namespace uroce::verbs {

void AsyncQueue::push(const ibv_async_event& event) try {
  const std::lock_guard guard(mutex_);
  events_.push_back(event);
  event_fd_.add();
} catch (const std::bad_alloc&) {
  log_message(LogLevel::kError, "%s: an async event is lost: %s", kOutOfMemory, ibv_event_type_str(event.event_type));
}

/// Called under the mutex.
bool AsyncQueue::pop(ibv_async_event& event) {
  if (events_.empty()) return false;
  event = events_.front();
  events_.pop_front();
  event_fd_.take(!events_.empty());
  if (const Subject subject = subject_of(event); subject.taken != nullptr) (*subject.taken)++;
  return true;
}

/// Drives the engine, which nothing else does in mode `inline`, until there is an event. False when the descriptor does
/// not block, after one turn. These events are rare, and a thread may wait for ever: it rests between the turns.
bool AsyncQueue::drive_until_event(ibv_async_event& event) {
  constexpr Duration kLongest = milliseconds(1);
  Duration rest = microseconds(10);
  for (;;) {
    pthread_testcancel();
    uint32_t work = 0;
    {
      const EngineLock lock(endpoint());
      work = endpoint().drive();
    }
    {
      const NoCancel with_an_event_in_hand;
      const std::lock_guard guard(mutex_);
      if (pop(event)) return true;
    }
    if (!waiting_blocks(fd())) return false;
    rest = work != 0 ? microseconds(10) : Duration{std::min(2 * rest.ns, kLongest.ns)};
    pollfd one{fd(), POLLIN, 0};
    const timespec longest{0, rest.ns};
    ppoll(&one, 1, &longest, nullptr);
  }
}

int AsyncQueue::take(ibv_async_event& event) {
  pthread_testcancel();
  if (Runtime::get().config().progress == Progress::kInline && drive_until_event(event)) return 0;
  for (bool woken = false;; woken = true) {
    {
      const std::lock_guard guard(mutex_);
      if (pop(event)) return 0;
      if (woken) event_fd_.settle();  // the event went away with its object
    }
    const auto pass_on = [this] {
      const std::lock_guard guard(mutex_);
      if (!events_.empty()) event_fd_.pass_on();
    };
    if (!wait_for_event_on(fd(), pass_on)) return -1;
  }
}

template <typename Object>
uint32_t AsyncQueue::forget(Object& object) {
  const std::lock_guard guard(mutex_);
  const auto gone = std::remove_if(events_.begin(), events_.end(),
                                   [&](const ibv_async_event& event) { return is_about(event, &object); });
  const auto left = gone - events_.begin();
  for (auto i = events_.end() - gone; i != 0; i--) event_fd_.take(left + i > 1);
  events_.erase(gone, events_.end());
  return object.async_taken;
}

template uint32_t AsyncQueue::forget(Cq&);
template uint32_t AsyncQueue::forget(QueuePair&);
template uint32_t AsyncQueue::forget(Srq&);
template uint32_t AsyncQueue::forget(Wq&);

}  // namespace uroce::verbs

UROCE_VERBS_EXPORT int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  if (is_the_parents(context)) {
    refuse_to_child();
    return -1;
  }
  return ours(context).async.take(*event);
}

UROCE_VERBS_EXPORT void ibv_ack_async_event(ibv_async_event* event) {
  const Subject subject = subject_of(*event);
  if (subject.mutex == nullptr) return;  // the port's and the device's events belong to no object that can go away
  pthread_mutex_lock(subject.mutex);
  (*subject.acknowledged)++;
  pthread_cond_signal(subject.cond);
  pthread_mutex_unlock(subject.mutex);
}
