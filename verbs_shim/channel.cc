// Completion channels: how a program sleeps until something completes.
#include <cerrno>

#include "dpdk/log.h"
#include "objects.h"
#include "runtime.h"

using namespace uroce;
using namespace uroce::verbs;

namespace uroce::verbs {

void Channel::push(Cq& cq) {
  const std::lock_guard guard(mutex);
  if (cq.events_waiting++ == 0) {
    cq.next_in_channel = nullptr;
    (last != nullptr ? last->next_in_channel : first) = &cq;
    last = &cq;
  }
  event_fd.add();
}

/// Under the mutex. Null when the event that a reader was woken for went away with its queue.
Cq* Channel::pop() {
  Cq* const cq = first;
  if (cq == nullptr) return nullptr;
  first = cq->next_in_channel;
  cq->next_in_channel = nullptr;
  if (first == nullptr) last = nullptr;
  cq->events_taken++;
  if (--cq->events_waiting != 0) {  // more of the same: behind the others
    (last != nullptr ? last->next_in_channel : first) = cq;
    last = cq;
  }
  return cq;
}

void Channel::forget(Cq& cq) {
  const std::lock_guard guard(mutex);
  if (cq.events_waiting == 0) return;
  Cq* before = nullptr;
  for (Cq* c = first; c != &cq; c = c->next_in_channel) before = c;
  (before != nullptr ? before->next_in_channel : first) = cq.next_in_channel;
  if (last == &cq) last = before;
  // A reader may already hold the count of one of them: it will find nothing and wait again.
  for (; cq.events_waiting != 0; cq.events_waiting--) event_fd.try_take();
}

}  // namespace uroce::verbs

UROCE_VERBS_EXPORT ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  auto* channel = new Channel{};
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
}

UROCE_VERBS_EXPORT int ibv_destroy_comp_channel(ibv_comp_channel* base) {
  Channel& channel = from(base);
  {
    const std::lock_guard guard(channel.mutex);
    if (base->refcnt != 0) return EBUSY;
  }
  count_object(base->context, -1);
  delete &channel;
  return 0;
}

namespace {

/// Nobody else drives the engine in this mode: a program that waits has to.
bool drives_itself(const EventFd& event_fd) {
  return Runtime::get().config().progress == Progress::kInline && event_fd.blocking();
}

Cq* drive_until_event(Channel& channel) {
  for (;;) {
    {
      const std::lock_guard guard(channel.mutex);
      if (channel.first != nullptr && channel.event_fd.try_take()) return channel.pop();
    }
    drive_for(microseconds(50));
  }
}

}  // namespace

UROCE_VERBS_EXPORT int ibv_get_cq_event(ibv_comp_channel* base, ibv_cq** cq, void** cq_context) {
  Channel& channel = from(base);
  Cq* event = nullptr;
  if (drives_itself(channel.event_fd)) event = drive_until_event(channel);
  while (event == nullptr) {
    if (!channel.event_fd.take()) return -1;
    const std::lock_guard guard(channel.mutex);
    event = channel.pop();
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
