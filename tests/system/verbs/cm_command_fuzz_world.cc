// What there is, one command, and the events.
#include <fcntl.h>
#include <unistd.h>

#include "cm_command_fuzz.h"

namespace cm_fuzz {

namespace {

int open_device() { return open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC | O_NONBLOCK); }

}  // namespace

Fuzzer::Fuzzer(Random& random, Judge& judge) : random_(random), judge_(judge) {
  for (size_t i = 0; i < kFiles; i++) files_.push_back(std::make_unique<File>(File{open_device()}));
  for (const char* event :
       {"event 0", "event 2", "event 4", "event 5", "event 8", "event 9", "event 10", "event 18", "event 19"}) {
    judge_.has_to_happen(event);
  }
}

Id* Fuzzer::any() { return ids_.empty() ? nullptr : ids_[random_.below(ids_.size())].get(); }

Id* Fuzzer::any_in(Phase phase) {
  Id* found = nullptr;
  uint64_t seen = 0;
  for (const auto& id : ids_) {
    if (id->phase == phase && random_.one_in(++seen)) found = id.get();
  }
  return found;
}

Id* Fuzzer::find(uint64_t uid) {
  for (const auto& id : ids_) {
    if (id->uid == uid) return id.get();
  }
  return nullptr;
}

/// Mostly that of a listener of this kind.
uint16_t Fuzzer::some_port(bool datagram) {
  const Id* const listener = any_in(Phase::kListen);
  if (listener == nullptr || listener->datagram != datagram || random_.one_in(8)) {
    return static_cast<uint16_t>(20000 + random_.below(20));
  }
  return listener->port;
}

int Fuzzer::write_command(const File& file, uint32_t command, const void* body, size_t in, size_t out) {
  uint8_t bytes[1024];
  const rdma_ucm_cmd_hdr header{command, static_cast<uint16_t>(in), static_cast<uint16_t>(out)};
  std::memcpy(bytes, &header, sizeof header);
  std::memcpy(bytes + sizeof header, body, in);
  const ssize_t written = write(file.fd, bytes, sizeof header + in);
  if (written < 0) return errno;
  if (written != static_cast<ssize_t>(sizeof header + in)) judge_.problem("write", "not all of it", written);
  return 0;
}

bool Fuzzer::outcome(const char* call, const Sent& sent, std::initializer_list<int> allowed) {
  if (sent.judged) return false;
  const bool may_succeed = std::find(allowed.begin(), allowed.end(), 0) != allowed.end();
  if (!sent.bad_response || !may_succeed) return judge_.among(call, sent.error, allowed);
  if (sent.error == 0) judge_.problem(call, "succeeded without a place for its reply", 0);
  if (sent.error != EFAULT) judge_.among(call, sent.error, allowed);
  return sent.error == EFAULT;
}

bool Fuzzer::take_event(File& file) {
  const Sent sent = send("get event", file, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{},
                         offsetof(rdma_ucm_event_resp, reserved));
  if (sent.judged) return true;
  // An event whose reply cannot be written stays.
  if (sent.bad_response) return judge_.among("(a wrong form)", sent.error, {EFAULT, EAGAIN}), true;
  if (!judge_.among("get event", sent.error, {0, EAGAIN})) return false;
  on_event(file, reply<rdma_ucm_event_resp>());
  return true;
}

void Fuzzer::on_event(File& file, const rdma_ucm_event_resp& event) {
  judge_.count(("event " + std::to_string(event.event)).c_str(), true);
  if (event.event == kEventMulticastJoin) {
    for (const auto& group : groups_) {
      if (group->number != event.id || group->uid != event.uid || group->id->file != &file) continue;
      group->taken++;
      group->id->taken++;
      return;
    }
    return judge_.problem("get event", "of a group that is not there", event.id);
  }
  Id* const id = find(event.uid);
  if (id == nullptr) return judge_.problem("get event", "of an id that is not there", event.id);
  if (id->file != &file) judge_.problem("get event", "of another channel's id", event.id);
  id->taken++;
  if (event.event == kEventConnectRequest) return on_request(*id, event);
  if (event.id != id->number) judge_.problem("get event", "not the id's number", event.id);
  on_event_of(*id, event);
}

void Fuzzer::on_request(Id& listener, const rdma_ucm_event_resp& event) {
  if (listener.phase != Phase::kListen) judge_.problem("get event", "a request of who does not listen", event.id);
  for (const auto& id : ids_) {
    if (id->number == event.id) judge_.problem("get event", "a request by the number of another id", event.id);
  }
  auto id = std::make_unique<Id>();
  id->number = event.id;
  id->file = listener.file;
  id->datagram = listener.datagram;
  id->phase = Phase::kConnect;
  id->has_device = id->has_connection = id->fresh = true;
  const uint8_t* data = listener.datagram ? event.param.ud.private_data : event.param.conn.private_data;
  std::memcpy(&id->peer_uid, data, sizeof id->peer_uid);
  ids_.push_back(std::move(id));
}

void Fuzzer::on_event_of(Id& id, const rdma_ucm_event_resp& event) {
  switch (event.event) {
    case kEventAddrResolved:
    case kEventAddrError:
      if (id.owed_addresses == 0) judge_.problem("get event", "an address that was not asked for", id.number);
      id.owed_addresses--;
      // A lookup that failed unseen may have been followed by another one, whose answer is yet to come.
      if (id.phase == Phase::kResolving && id.owed_addresses == 0) {
        id.phase = event.event == kEventAddrResolved ? Phase::kAddrResolved : Phase::kBound;
      }
      return;
    case kEventRouteResolved:
      if (id.owed_routes == 0) judge_.problem("get event", "a route that was not asked for", id.number);
      id.owed_routes--;
      return;
    case kEventUser:
    case kEventInternal: {
      WriteCmEvent event_written;
      std::memcpy(&event_written.argument, &event.param, sizeof event_written.argument);
      if (event_written.argument != ++id.read || id.read > id.written || event.status != id.number)
        judge_.problem("get event", "not what was written, or not in order", event.id);
      return;
    }
    default:
      if (id.phase != Phase::kConnect) judge_.problem("get event", "of a connection that is none", event.event);
      if (id.fresh) judge_.problem("get event", "of a request that is not accepted", event.event);
  }
}

void Fuzzer::forget(Id& id) {
  disturb(id);
  std::erase_if(groups_, [&](const auto& group) { return group->id == &id; });
  std::erase_if(ids_, [&](const auto& one) { return one.get() == &id; });
}

/// From now on the state of its connection is unknown.
void Fuzzer::disturb(Id& id) { id.disturbed = true; }

/// Closing a channel destroys all that is on it.
void Fuzzer::reopen() {
  File& file = *files_[random_.below(files_.size())];
  Judge::begin("close");
  if (close(file.fd) != 0) judge_.problem("close", "failed", errno);
  for (size_t i = ids_.size(); i-- != 0;) {
    if (ids_[i]->file == &file) forget(*ids_[i]);
  }
  file.fd = open_device();
  judge_.among("open", file.fd < 0 ? errno : 0, {0});
}

void Fuzzer::finish() {
  for (const auto& file : files_) {
    while (take_event(*file)) {
    }
  }
  while (ids_.size() > 10) destroy(*ids_[random_.below(ids_.size())]);
  for (const auto& file : files_) {
    Judge::begin("close");
    if (close(file->fd) != 0) judge_.problem("close", "failed", errno);
  }
}

}  // namespace cm_fuzz
