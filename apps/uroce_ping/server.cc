#include "server.h"

#include <poll.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "datagram_qp.h"
#include "errors.h"
#include "question.h"

namespace uroce::ping {
namespace {

class Server {
 public:
  bool listen(std::string& error);
  bool run(std::string& error);

 private:
  bool on_event(std::string& error);
  bool accept(rdma_cm_id& request, std::string& error);
  void answer(DatagramQp& qp);

  EventChannel channel_;
  Id listener_;
  std::map<ibv_context*, std::unique_ptr<DatagramQp>> devices_;  // a queue pair of each that somebody has asked by
};

bool Server::listen(std::string& error) {
  channel_.reset(rdma_create_event_channel());
  if (!channel_) return failed("rdma_create_event_channel", error);
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel_.get(), &id, nullptr, RDMA_PS_UDP) != 0) return failed("rdma_create_id", error);
  listener_.reset(id);
  Address any;
  any.storage.ss_family = AF_INET6;  // and IPv4
  any.set_port(kService);
  if (rdma_bind_addr(id, any.get()) != 0) {
    if (errno != EADDRINUSE) return failed("rdma_bind_addr", error);
    error = "pings are served here already";
    return false;
  }
  if (rdma_listen(id, 64) != 0) return failed("rdma_listen", error);
  return true;
}

bool Server::accept(rdma_cm_id& request, std::string& error) {
  auto& qp = devices_[request.verbs];
  if (!qp) qp = DatagramQp::create(request.verbs, request.port_num, error);
  if (!qp) {
    devices_.erase(request.verbs);
    rdma_reject(&request, nullptr, 0);
    return false;
  }
  rdma_conn_param param{};
  param.qp_num = qp->qpn();
  if (rdma_accept(&request, &param) != 0) return failed("rdma_accept", error);
  std::printf("asked by %s\n", text_of(rdma_get_peer_addr(&request)).c_str());
  std::fflush(stdout);
  return true;
}

/// The request's id has done all that it can when it is accepted: pings go to the queue pair. False when there is
/// nothing more to wait for.
bool Server::on_event(std::string& error) {
  rdma_cm_event* got = nullptr;
  if (rdma_get_cm_event(channel_.get(), &got) != 0) return failed("rdma_get_cm_event", error);
  Event event(got);
  if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
    error = "the device is gone";
    return false;
  }
  if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) return true;
  const Id request(event->id);
  if (!accept(*request, error)) fail(error);
  event.reset();  // before its id ends
  return true;
}

void Server::answer(DatagramQp& qp) {
  std::string error;
  while (const auto ping = qp.next(Clock::now())) {
    if (ping->message.answer || !ping->sender) continue;
    const Message answer{.answer = true,
                         .traffic_class = ping->traffic_class,
                         .sequence = ping->message.sequence,
                         .length = ping->bytes};
    if (!qp.send(answer, ping->bytes, {ping->sender.get(), ping->sender_qpn, kDatagramQkey}, error)) fail(error);
  }
}

bool Server::run(std::string& error) {
  for (;;) {
    std::vector<pollfd> readable{{.fd = channel_->fd, .events = POLLIN, .revents = 0}};
    for (const auto& [device, qp] : devices_) readable.push_back({.fd = qp->fd(), .events = POLLIN, .revents = 0});
    if (poll(readable.data(), readable.size(), -1) < 0 && errno != EINTR) return failed("poll", error);
    for (const auto& [device, qp] : devices_) answer(*qp);
    if (readable[0].revents != 0 && !on_event(error)) return false;
  }
}

}  // namespace

int serve() {
  Server server;
  std::string error;
  if (!server.listen(error)) return fail(error);
  std::printf("serving pings; `uroce ping HOST` on another machine asks\n");
  std::fflush(stdout);
  server.run(error);
  return fail(error);
}

}  // namespace uroce::ping
