// The life of ids and their events, and the program: cm_call_fuzz [SEED [STEPS]].
#include "cm_call_fuzz.h"

#include <fcntl.h>

#include <cstdlib>

namespace cm_fuzz {

namespace {

void never_wait(rdma_event_channel* channel) { fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK); }

rdma_event_channel* new_channel() {
  rdma_event_channel* const channel = rdma_create_event_channel();
  if (channel != nullptr) never_wait(channel);
  return channel;
}

}  // namespace

Caller::Caller(Random& random, Judge& judge) : random_(random), judge_(judge) {
  for (int i = 0; i < 3; i++) channels_.push_back(new_channel());
  for (const char* event : {"event 0", "event 2", "event 4", "event 8", "event 9", "event 10"}) {
    judge_.has_to_happen(event);
  }
}

Endpoint* Caller::any() { return endpoints_.empty() ? nullptr : endpoints_[random_.below(endpoints_.size())].get(); }

Endpoint* Caller::any_in(Stage stage) {
  Endpoint* found = nullptr;
  uint64_t seen = 0;
  for (const auto& endpoint : endpoints_) {
    if (endpoint->stage == stage && random_.one_in(++seen)) found = endpoint.get();
  }
  return found;
}

Endpoint* Caller::find(const rdma_cm_id* id) {
  for (const auto& endpoint : endpoints_) {
    if (endpoint->id == id) return endpoint.get();
  }
  return nullptr;
}

bool Caller::sane(const char* call, int result, const rdma_cm_id* id) {
  if (result != 0 && result != -1) judge_.problem(call, "returned something else", result);
  // A call that waits returns the status of its event, with either sign. SIDR's is no errno, and neither is -1, which
  // librdmacm returns itself when it could not change the queue pair.
  const bool of_event =
      id != nullptr && id->event != nullptr && id->event->status != 0 && std::abs(id->event->status) == std::abs(errno);
  const int error = result == 0 ? 0 : errno < 0 || of_event ? ECONNREFUSED : errno;
  return judge_.among(call, error,
                      {0, EINVAL, EADDRINUSE, EADDRNOTAVAIL, ENETUNREACH, ENOMEM, EAGAIN, ENOSYS, EOPNOTSUPP, EISCONN,
                       ECONNREFUSED, ETIMEDOUT, EBUSY});
}

void Caller::predicted(const char* call, int result, bool succeeds) {
  const int error = result == 0 ? 0 : errno;
  if (sane(call, result) == succeeds) return;
  judge_.problem(call, succeeds ? "has to succeed" : "cannot succeed", error);
}

Endpoint& Caller::add(rdma_cm_id* id, bool has_channel, Stage stage) {
  if (!has_channel) never_wait(id->channel);
  auto endpoint = std::make_unique<Endpoint>();
  endpoint->id = id;
  endpoint->has_channel = has_channel;
  endpoint->datagram = id->qp_type == IBV_QPT_UD;
  endpoint->stage = stage;
  endpoints_.push_back(std::move(endpoint));
  return *endpoints_.back();
}

void Caller::create() {
  if (endpoints_.size() >= kEndpointsMax) return destroy();
  constexpr rdma_port_space kSpaces[] = {RDMA_PS_TCP, RDMA_PS_TCP,   RDMA_PS_TCP,
                                         RDMA_PS_UDP, RDMA_PS_IPOIB, static_cast<rdma_port_space>(7)};
  const rdma_port_space space = kSpaces[random_.below(std::size(kSpaces))];
  rdma_event_channel* const channel = random_.one_in(12) ? nullptr : channels_[random_.below(channels_.size())];
  rdma_cm_id* id = nullptr;
  Judge::begin("rdma_create_id");
  const int result = rdma_create_id(channel, &id, this, space);
  predicted("rdma_create_id", result, space != 7);
  if (result == 0) add(id, channel != nullptr, channel != nullptr ? Stage::kIdle : Stage::kUnknown);
}

void Caller::create_endpoint() {
  if (endpoints_.size() >= kEndpointsMax) return destroy();
  rdma_addrinfo hints{};
  hints.ai_flags = random_.one_in(2) ? RAI_PASSIVE : 0;
  hints.ai_flags |= random_.one_in(2) ? RAI_NUMERICHOST : 0;
  hints.ai_port_space = random_.one_in(3) ? RDMA_PS_UDP : RDMA_PS_TCP;
  hints.ai_qp_type = random_.one_in(5) ? IBV_QPT_UD : 0;
  rdma_addrinfo* found = nullptr;
  Judge::begin("rdma_getaddrinfo");
  const int error = rdma_getaddrinfo(random_.one_in(4) ? nullptr : "127.0.0.1", random_.one_in(4) ? nullptr : "20001",
                                     random_.one_in(4) ? nullptr : &hints, &found);
  judge_.count("rdma_getaddrinfo", error == 0);
  if (error != 0) return;
  ibv_qp_init_attr attr{};
  attr.cap = {4, 4, 1, 1, 0};
  attr.qp_type = random_.one_in(4) ? IBV_QPT_UD : IBV_QPT_RC;
  rdma_cm_id* id = nullptr;
  Judge::begin("rdma_create_ep");
  const int result = rdma_create_ep(&id, found, nullptr, random_.one_in(2) ? &attr : nullptr);
  if (sane("rdma_create_ep", result)) add(id, false, Stage::kUnknown).id->context = this;
  rdma_freeaddrinfo(found);
}

void Caller::destroy() {
  Endpoint* const endpoint = any();
  const bool is_rare = endpoint != nullptr && (endpoint->stage == Stage::kConnect || endpoint->stage == Stage::kListen);
  if (endpoint != nullptr && (!is_rare || random_.one_in(3))) destroy(*endpoint);
}

void Caller::destroy(Endpoint& endpoint) {
  acknowledge_all(endpoint.id);
  if (endpoint.id->qp != nullptr) rdma_destroy_qp(endpoint.id);
  Judge::begin("rdma_destroy_id");
  predicted("rdma_destroy_id", rdma_destroy_id(endpoint.id), true);
  std::erase_if(endpoints_, [&](const auto& one) { return one.get() == &endpoint; });
}

void Caller::acknowledge() {
  if (taken_.empty()) {
    Judge::begin("rdma_ack_cm_event of none");
    if (rdma_ack_cm_event(nullptr) == 0) judge_.problem("rdma_ack_cm_event", "nothing was acknowledged", 0);
    return;
  }
  const size_t index = random_.below(taken_.size());
  Judge::begin("rdma_ack_cm_event");
  predicted("rdma_ack_cm_event", rdma_ack_cm_event(taken_[index].event), true);
  taken_.erase(taken_.begin() + static_cast<ptrdiff_t>(index));
}

/// Destroying an id waits for the acknowledgement of its events.
void Caller::acknowledge_all(const rdma_cm_id* owner) {
  std::erase_if(taken_, [&](const Taken& one) { return one.owner == owner && rdma_ack_cm_event(one.event) == 0; });
}

void Caller::take_event() {
  rdma_event_channel* const channel = channels_[random_.below(channels_.size())];
  rdma_cm_event* event = nullptr;
  Judge::begin("rdma_get_cm_event");
  if (random_.one_in(100)) {
    return predicted("(rdma_get_cm_event into nothing)", rdma_get_cm_event(channel, nullptr), false);
  }
  const int result = rdma_get_cm_event(channel, &event);
  judge_.among("rdma_get_cm_event", result == 0 ? 0 : errno, {0, EAGAIN});
  if (result == 0) on_event(event);
}

void Caller::on_event(rdma_cm_event* event) {
  judge_.count(("event " + std::to_string(event->event)).c_str(), true);
  const bool asks = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
  rdma_cm_id* const owner = asks ? event->listen_id : event->id;
  taken_.push_back({event, owner});
  Endpoint* const endpoint = find(owner);
  if (endpoint == nullptr) return judge_.problem("rdma_get_cm_event", "of an id that is not there", event->event);
  if (owner->context != this) judge_.problem("rdma_get_cm_event", "another context", event->event);
  if (asks) {
    if (find(event->id) != nullptr) judge_.problem("rdma_get_cm_event", "a request by an id that there is", 0);
    add(event->id, true, Stage::kConnect);
  } else if (endpoint->stage == Stage::kResolving && event->event == RDMA_CM_EVENT_ADDR_RESOLVED) {
    endpoint->stage = Stage::kAddrResolved;
  } else if (endpoint->stage == Stage::kResolving && event->event == RDMA_CM_EVENT_ADDR_ERROR) {
    endpoint->stage = Stage::kBound;
  }
}

void Caller::migrate() {
  Endpoint* const endpoint = any();
  if (endpoint == nullptr) return;
  rdma_event_channel* const channel = random_.one_in(10) ? nullptr : channels_[random_.below(channels_.size())];
  acknowledge_all(endpoint->id);
  Judge::begin("rdma_migrate_id");
  const bool leaves_own = !endpoint->has_channel && channel == nullptr;
  if (leaves_own) return;
  predicted("rdma_migrate_id", rdma_migrate_id(endpoint->id, channel), true);
  endpoint->has_channel = channel != nullptr;
  if (channel == nullptr) never_wait(endpoint->id->channel);
  if (channel == nullptr) endpoint->stage = Stage::kUnknown;
}

/// A channel is destroyed after its ids and their events.
void Caller::renew_channel() {
  const size_t index = random_.below(channels_.size());
  for (size_t i = endpoints_.size(); i-- != 0;) {
    if (endpoints_[i]->id->channel == channels_[index]) destroy(*endpoints_[i]);
  }
  Judge::begin("rdma_destroy_event_channel");
  rdma_destroy_event_channel(channels_[index]);
  channels_[index] = new_channel();
  if (channels_[index] == nullptr) judge_.problem("rdma_create_event_channel", "failed", errno);
}

void Caller::finish() {
  while (!endpoints_.empty()) destroy(*endpoints_[random_.below(endpoints_.size())]);
  if (!taken_.empty()) judge_.problem("the end", "events without an id", static_cast<int64_t>(taken_.size()));
  for (rdma_event_channel* channel : channels_) {
    rdma_cm_event* event = nullptr;
    Judge::begin("the end");
    if (rdma_get_cm_event(channel, &event) == 0) judge_.problem("the end", "an event of nobody", event->event);
    rdma_destroy_event_channel(channel);
  }
}

void Caller::step() {
  using Call = void (Caller::*)();
  constexpr Call kCalls[] = {&Caller::create,     &Caller::create,     &Caller::create,       &Caller::create_endpoint,
                             &Caller::destroy,    &Caller::bind,       &Caller::resolve_addr, &Caller::resolve_route,
                             &Caller::listen,     &Caller::connect,    &Caller::accept,       &Caller::reject,
                             &Caller::disconnect, &Caller::establish,  &Caller::migrate,      &Caller::create_qp,
                             &Caller::create_qp,  &Caller::destroy_qp, &Caller::join,         &Caller::leave,
                             &Caller::set_option, &Caller::attributes, &Caller::ask,          &Caller::get_request};
  if (random_.one_in(1000)) return renew_channel();
  if (random_.one_in(3)) return take_event();
  if (random_.one_in(6)) return acknowledge();
  if (random_.one_in(3)) return forward();
  (this->*kCalls[random_.below(std::size(kCalls))])();
}

}  // namespace cm_fuzz

int main(int argc, char** argv) { return cm_fuzz::main_of<cm_fuzz::Caller>(argc, argv); }
