// Events: from connection management into a channel's queue, and from there to the program.
#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/no_cancel.h"
#include "base/out_of_memory.h"
#include "dpdk/log.h"
#include "event_fd.h"
#include "runtime.h"
#include "ucma.h"
#include "ucma_convert.h"

namespace uroce::verbs {

static_assert(static_cast<int>(cm::EventType::kTimewaitExit) == 15);

namespace {

// The part of the structure that programs know which are older than its last members.
constexpr size_t kResponseBytesMin = offsetof(rdma_ucm_event_resp, reserved);

// A peer that answers at once is answered without the cost of going to sleep and being woken.
constexpr Duration kSpin = microseconds(50);

rdma_ucm_event_resp response_of(const cm::Event& event) {
  rdma_ucm_event_resp to{};
  to.event = static_cast<uint32_t>(event.type);
  to.status = static_cast<uint32_t>(event.status);
  if (event.is_datagram) {
    ud_param_to(event.datagram, to.param.ud);
  } else {
    conn_param_to(event.connection, to.param.conn);
  }
  to.ece = {event.ece.vendor_id, event.ece.attr_mod};
  return to;
}

void notice(UcmaFile& file) {
  if (file.fd >= 0) file.signal.add(file.fd);
}

}  // namespace

bool Ucma::on_cm_event(const cm::Event& event) try {
  if (event.type == cm::EventType::kConnectRequest) return queue_request(event);
  auto* const id = static_cast<UcmaId*>(event.id->user());
  // As the kernel does, no event tells of a request that the program has not accepted: accepting it will fail.
  if (id == nullptr || id->uid == 0) return true;
  UcmaEvent queued{id, static_cast<UcmaMulticast*>(event.multicast), nullptr, response_of(event)};
  queued.response.uid = queued.multicast != nullptr ? queued.multicast->uid : id->uid;
  queued.response.id = queued.multicast != nullptr ? queued.multicast->number : id->number;
  const std::lock_guard guard(mutex);
  id->file->queue.push(queued, queued.multicast != nullptr ? queued.multicast->places : id->places);
  notice(*id->file);
  return true;
} catch (const std::bad_alloc&) {
  log_message(LogLevel::kError, "%s: an event of rdma_cm is lost", kOutOfMemory);
  return false;
}

void Ucma::push_written(UcmaId& id, uint32_t type, uint32_t status, uint64_t argument) {
  UcmaEvent queued{&id, nullptr, nullptr, {}};
  queued.response.uid = id.uid;
  queued.response.id = id.number;
  queued.response.event = type;
  queued.response.status = status;
  std::memcpy(&queued.response.param, &argument, sizeof argument);
  const std::lock_guard guard(mutex);
  id.file->queue.push_beside(queued);
  notice(*id.file);
}

bool Ucma::queue_request(const cm::Event& event) {
  auto* const listener = static_cast<UcmaId*>(event.listener->user());
  if (listener == nullptr) return false;
  UcmaFile* file;
  {
    const std::lock_guard guard(mutex);
    if (listener->backlog_left == 0) return false;
    listener->backlog_left--;
    file = listener->file;
  }
  try {
    UcmaId* const child = &add_id(*file, event.id->port_space(), event.id->qp_type());
    child->id = event.id;
    UcmaEvent queued{listener, nullptr, child, response_of(event)};
    queued.response.uid = listener->uid;
    queued.response.id = child->number;
    const std::lock_guard guard(mutex);
    file->queue.push(queued, child->places);
    notice(*file);
    event.id->set_user(child);
    return true;
  } catch (const std::bad_alloc&) {
    const std::lock_guard guard(mutex);
    listener->backlog_left++;
    throw;
  }
}

/// Called under the mutex. Some of the events of the file are gone; `before`: how many there were. A reader may have
/// been woken for one of them already; it will find no event and wait again.
void Ucma::settle_signal(UcmaFile& file, size_t before) {
  for (size_t left = before; file.fd >= 0 && left > file.queue.events().size(); left--)
    file.signal.take(file.fd, left > 1);
}

/// Called under the mutex. Returns the ids that end with `id`, as a list: a listener's requests that the program has
/// not taken, and `id` itself. None of that takes memory.
UcmaId* Ucma::drop_events(UcmaFile& file, UcmaId* id, const UcmaMulticast* multicast) {
  UcmaId* going = id;
  const size_t before = file.queue.events().size();
  for (auto next = file.queue.events().begin(); next != file.queue.events().end();) {
    const auto event = next++;
    const bool is_request = id != nullptr && event->request == id;  // it ends before its listener
    const bool goes = id != nullptr ? event->owner == id || is_request : event->multicast == multicast;
    if (!goes) continue;
    if (is_request) {
      event->owner->backlog_left++;
    } else if (event->request != nullptr) {
      event->request->next_going = std::exchange(going, event->request);
    }
    file.queue.pop(event);
  }
  settle_signal(file, before);
  return going;
}

template <typename Each>
void Ucma::each_places_of(UcmaId& id, Each each) {
  each(id.places);
  for (const auto& [number, multicast] : multicasts_) {
    if (multicast->id == &id) each(multicast->places);
  }
}

uint32_t Ucma::migrate(UcmaId& id, UcmaFile& to) {
  const std::lock_guard guard(mutex);
  UcmaFile& from = *id.file;
  if (&from == &to) return id.events_reported;
  const size_t before = from.queue.events().size();
  const auto move = [&](UcmaId& one) {
    each_places_of(one, [&](const UcmaPlaces& places) { from.queue.move_places(places, to.queue); });
    one.file = &to;
    from.ids--;
    to.ids++;
  };
  for (auto next = from.queue.events().begin(); next != from.queue.events().end();) {
    const auto event = next++;
    if (event->owner != &id) continue;
    if (event->request != nullptr) move(*event->request);
    from.queue.move_event(event, to.queue);
    notice(to);
  }
  move(id);
  settle_signal(from, before);
  return id.events_reported;
}

/// Drives the engine for a program that waits. Returns when there is an event, or when it is time to sleep.
void Ucma::wait_turn(const UcmaFile& file, bool blocks) {
  if (!Runtime::get().is_open()) return;
  const auto has_event = [&] {
    const std::lock_guard guard(mutex);
    return !file.queue.events().empty();
  };
  const bool for_ever = blocks && Runtime::get().config().progress == Progress::kInline;
  const Instant end = endpoint().now() + kSpin;
  while (!has_event()) {
    pthread_testcancel();
    {
      const NoCancel until_the_end_of_a_turn;
      EngineLock lock(endpoint());
      endpoint().drive();
    }
    if (!blocks) return;
    if (!for_ever && endpoint().now() >= end) {
      endpoint().wake_thread();
      return;
    }
  }
}

/// Called under the mutex, when there is an event. 0, or EFAULT, and then the event stays.
int Ucma::take_event(UcmaFile& file, uint64_t response, size_t room) {
  UcmaEvent& event = file.queue.events().front();
  if (!copy_to_program(response, &event.response, std::min(room, sizeof event.response))) return EFAULT;
  event.owner->events_reported++;
  if (event.multicast != nullptr) event.multicast->events_reported++;
  if (event.request != nullptr) event.owner->backlog_left++;
  file.queue.pop(file.queue.events().begin());
  if (file.fd >= 0) file.signal.take(file.fd, !file.queue.events().empty());
  return 0;
}

namespace {

/// Another thread may open the device meanwhile; this one may then have to drive it. True after a signal, too.
bool readable_soon(int fd) {
  constexpr int kPatienceMs = 10;
  pollfd one{fd, POLLIN, 0};
  return syscall(SYS_poll, &one, 1, kPatienceMs) != 0;
}

/// A duplicate of the descriptor, closed at the end, also when the thread is cancelled.
class OwnDescriptor {
 public:
  explicit OwnDescriptor(int of) : fd_(static_cast<int>(syscall(SYS_fcntl, of, F_DUPFD_CLOEXEC, 0))) {}
  ~OwnDescriptor() {
    if (fd_ >= 0) syscall(SYS_close, fd_);
  }
  OwnDescriptor(const OwnDescriptor&) = delete;
  OwnDescriptor& operator=(const OwnDescriptor&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

/// Waits for a while where no descriptor is left for a duplicate. Another thread may close this one meanwhile (-1: it
/// has), and open something else there, so its being readable says nothing.
void Ucma::wait_on_shared(const UcmaFile& file, int fd) {
  pthread_testcancel();
  if (fd < 0) pause();
  readable_soon(fd);
  wait_turn(file, true);
}

// A thread can be cancelled at the beginning and where it waits, as in a write to a kernel's device: that is how
// libiscsi ends its thread, and it frees what that thread uses.
int Ucma::get_event(UcmaFile& file, uint64_t response, size_t room) {
  if (room < kResponseBytesMin) return ENOSPC;
  pthread_testcancel();
  std::unique_lock guard(mutex);
  if (file.fd < 0) return EBADF;
  const bool blocks = waiting_blocks(file.fd);
  if (file.queue.events().empty()) {
    guard.unlock();
    wait_turn(file, blocks);
    guard.lock();
  }
  if (!file.queue.events().empty()) return take_event(file, response, room);
  if (!blocks) return EAGAIN;
  // In a kernel, a thread that waits holds the file even when another thread closes the descriptor; then no event comes
  // any more. rping ends like that, with a thread that waits.
  if (file.fd < 0) {
    guard.unlock();
    pause();
    return EINTR;
  }
  const OwnDescriptor own(file.fd);
  const auto pass_on = [&] {
    const std::lock_guard again(mutex);
    if (file.fd >= 0 && !file.queue.events().empty()) file.signal.pass_on(file.fd);
  };
  int error = 0;
  do {
    if (file.fd >= 0) file.signal.settle(file.fd);
    const int shared = file.fd;
    guard.unlock();
    if (own.fd() < 0) {
      wait_on_shared(file, shared);
    } else {
      if (!Runtime::get().is_open()) {
        while (!Runtime::get().is_open() && !readable_soon(own.fd())) pthread_testcancel();
        wait_turn(file, true);
      }
      error = wait_for_event_on(own.fd(), pass_on) ? 0 : errno;
    }
    guard.lock();
  } while (error == 0 && file.queue.events().empty());
  return error != 0 ? error : take_event(file, response, room);
}

}  // namespace uroce::verbs
