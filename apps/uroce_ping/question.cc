#include "question.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "errors.h"

namespace uroce::ping {
namespace {

std::chrono::milliseconds until(Clock::time_point deadline) {
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()), std::chrono::milliseconds(0));
}

std::string reason(int status) { return status < 0 ? std::strerror(-status) : std::to_string(status); }

}  // namespace

void Address::set_port(uint16_t port) {
  if (storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(storage).sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in&>(storage).sin_port = htons(port);
  }
}

std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof text);
  } else {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  }
  return text;
}

Event Question::next_event(Clock::time_point deadline, std::string& error) {
  pollfd readable{.fd = channel_->fd, .events = POLLIN, .revents = 0};
  rdma_cm_event* event = nullptr;
  if (poll(&readable, 1, static_cast<int>(until(deadline).count())) > 0 &&
      rdma_get_cm_event(channel_.get(), &event) == 0)
    return Event(event);
  error = "no answer in time";
  return nullptr;
}

bool Question::expect(rdma_cm_event_type type, const char* what, Clock::time_point deadline, std::string& error) {
  const Event event = next_event(deadline, error);
  if (event && event->event == type) return true;
  if (event) error = reason(event->status);
  error = std::string(what) + ": " + error;
  return false;
}

bool Question::resolve(Address& host, Clock::time_point deadline, std::string& error) {
  channel_.reset(rdma_create_event_channel());
  if (!channel_) {
    error = errno == ENODEV || errno == ENOENT ? "there is no RDMA device: uroce ping brings one"
                                               : std::string("rdma_create_event_channel: ") + std::strerror(errno);
    return false;
  }
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel_.get(), &id, nullptr, RDMA_PS_UDP) != 0) return failed("rdma_create_id", error);
  id_.reset(id);
  host.set_port(kService);
  const int timeout_ms = static_cast<int>(until(deadline).count());
  if (rdma_resolve_addr(id, nullptr, host.get(), timeout_ms) != 0) return failed("no way there", error);
  if (!expect(RDMA_CM_EVENT_ADDR_RESOLVED, "no way there", deadline, error)) return false;
  if (rdma_resolve_route(id, timeout_ms) != 0) return failed("rdma_resolve_route", error);
  return expect(RDMA_CM_EVENT_ROUTE_RESOLVED, "no way there", deadline, error);
}

std::optional<Answer> Question::ask(Clock::time_point deadline, std::string& error) {
  rdma_conn_param param{};
  if (rdma_connect(id_.get(), &param) != 0) {
    failed("rdma_connect", error);
    return {};
  }
  const Event event = next_event(deadline, error);
  if (!event) return Answer::kSilent;
  if (event->event == RDMA_CM_EVENT_ESTABLISHED) {
    served_at_ = event->param.ud;
    served_at_.private_data = nullptr;
    return Answer::kServed;
  }
  // A positive status is what the other end has said; a negative one is a reason of this end's.
  if (event->status > 0) return Answer::kRoce;
  error = std::string(rdma_event_str(event->event)) + ": " + reason(event->status);
  return Answer::kSilent;
}

}  // namespace uroce::ping
