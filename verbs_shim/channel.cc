// Completion channels, with which a program sleeps until something completes.
#include <pthread.h>

#include <cerrno>
#include <new>

#include "base/no_cancel.h"
#include "dpdk/log.h"
#include "objects.h"
#include "runtime.h"
#include "transport/completion_queue.h"

using namespace uroce;
using namespace uroce::verbs;

namespace uroce::verbs {

void Channel::append(Cq& cq) {
  cq.next_in_channel = nullptr;
  (last != nullptr ? last->next_in_channel : first) = &cq;
  last = &cq;
}

void Channel::unlink(Cq& cq) {
  Cq* before = nullptr;
  for (Cq* c = first; c != &cq; c = c->next_in_channel) before = c;
  (before != nullptr ? before->next_in_channel : first) = cq.next_in_channel;
  if (last == &cq) last = before;
}

void Channel::push(Cq& cq) {
  const std::lock_guard guard(mutex);
  if (cq.events_waiting == 0) append(cq);
  cq.events_waiting++;
  event_fd.add();
}

/// Called under the mutex. Null when there is no event, or the one for which a reader was woken is gone.
Cq* Channel::pop() {
  Cq* const cq = first;
  if (cq == nullptr) return nullptr;
  unlink(*cq);
  cq->events_taken++;
  if (--cq->events_waiting != 0) append(*cq);  // it has more events: appended behind the others
  event_fd.take(first != nullptr);
  return cq;
}

void Channel::forget(Cq& cq) {
  const std::lock_guard guard(mutex);
  if (cq.events_waiting == 0) return;
  unlink(cq);
  // A reader may have been woken for one of them already; it will find no event and wait again.
  for (; cq.events_waiting != 0; cq.events_waiting--) event_fd.take(first != nullptr || cq.events_waiting > 1);
}

}  // namespace uroce::verbs

UROCE_VERBS_EXPORT ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) try {
  if (is_the_parents(context)) {
    refuse_to_child();
    return nullptr;
  }
  auto* channel = new Channel;
  channel->context = context;
  channel->fd = channel->event_fd.fd();
  if (channel->fd < 0) {
    const int error = errno;
    delete channel;
    errno = error;
    return nullptr;
  }
  count_object(context, 1);
  return channel;
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

UROCE_VERBS_EXPORT int ibv_destroy_comp_channel(ibv_comp_channel* base) {
  if (is_the_parents(base->context)) return 0;
  Channel& channel = ours(base);
  {
    const std::lock_guard guard(channel.mutex);
    if (base->refcnt != 0) return with_errno(EBUSY);
  }
  count_object(base->context, -1);
  delete &channel;
  return 0;
}

namespace {

// A peer that answers at once is answered without the cost of going to sleep and being woken.
constexpr Duration kSpin = microseconds(50);

/// Drives the engine until there is an event. Null when `patience` is over before that.
Cq* drive_until_event(Channel& channel, Duration patience) {
  const NoCancel until_the_end_of_a_turn;
  const Instant end = endpoint().now() + patience;
  do {
    {
      const std::lock_guard guard(channel.mutex);
      if (Cq* const event = channel.pop(); event != nullptr) return event;
    }
    EngineLock lock(endpoint());
    endpoint().drive();
  } while (endpoint().now() < end);
  return nullptr;
}

Cq* wait_for_event(Channel& channel) {
  if (channel.event_fd.blocking()) {
    // In mode `inline` nothing else drives the engine, so a program that waits has to.
    Cq* event;
    do {
      pthread_testcancel();
      event = drive_until_event(channel, kSpin);
    } while (event == nullptr && Runtime::get().config().progress == Progress::kInline);
    if (event != nullptr) return event;
    endpoint().wake_thread();
  }
  pthread_testcancel();
  for (bool woken = false;; woken = true) {
    {
      const std::lock_guard guard(channel.mutex);
      if (Cq* const event = channel.pop(); event != nullptr) return event;
      if (woken) channel.event_fd.settle();
    }
    const auto pass_on = [&channel] {
      const std::lock_guard guard(channel.mutex);
      if (channel.first != nullptr) channel.event_fd.pass_on();
    };
    if (!wait_for_event_on(channel.event_fd.fd(), pass_on)) return nullptr;
  }
}

}  // namespace

UROCE_VERBS_EXPORT int ibv_get_cq_event(ibv_comp_channel* base, ibv_cq** cq, void** cq_context) {
  if (is_the_parents(base->context)) {
    refuse_to_child();
    return -1;
  }
  Cq* const event = wait_for_event(ours(base));
  if (event == nullptr) return -1;
  const NoCancel with_an_event_in_hand;
  {
    // Keeps the background thread from delivering the next completion before the program arms the queue again: an event
    // of its own would announce that completion, and ibv_rc_pingpong -t, which polls two at a time, would find nothing
    // for that event.
    EngineLock lock(endpoint());
    endpoint().note_awake();
    if (event->queue != nullptr) event->queue->on_event_taken();
  }
  *cq = event->base();
  *cq_context = event->cq_context;
  return 0;
}

UROCE_VERBS_EXPORT void ibv_ack_cq_events(ibv_cq* cq, unsigned events) {
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += events;
  pthread_cond_signal(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}
