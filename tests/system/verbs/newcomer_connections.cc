#include "newcomer_connections.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

#include <cerrno>
#include <cstring>

#include "newcomer.h"

namespace verbs_test {
namespace {

constexpr int kSoon = 300;  // ms
constexpr int kAtLast = 15000;

bool has_event(rdma_event_channel* channel, int patience_ms) {
  pollfd entry{channel->fd, POLLIN, 0};
  return poll(&entry, 1, patience_ms) == 1;
}

sockaddr_in address_at(ibv_context* context, uint16_t port) {
  const ibv_gid gid = own_gid(context);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  std::memcpy(&address.sin_addr, &gid.raw[12], sizeof address.sin_addr);
  return address;
}

}  // namespace

int await_event(rdma_event_channel* channel, rdma_cm_event_type wanted, const std::function<void()>& patience,
                rdma_cm_id** id) {
  if (!has_event(channel, kSoon)) {
    patience();
    if (!has_event(channel, kAtLast)) return kUnreached;
  }
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel, &event) != 0) return errno == EAGAIN ? kUnreached : errno;
  const bool good = event->event == wanted && event->status == 0;
  if (good && id != nullptr) *id = event->id;
  if (rdma_ack_cm_event(event) != 0) return errno;
  return good ? 0 : kUnreached;
}

int give_queue_pair(rdma_cm_id* id) {
  ibv_qp_init_attr attr{};
  attr.cap = {4, 4, 1, 1, 0};
  attr.qp_type = IBV_QPT_RC;
  return rdma_create_qp(id, nullptr, &attr) == 0 ? 0 : errno;
}

int bind_to(rdma_cm_id* id, uint16_t port) {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  return rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&any)) == 0 ? 0 : errno;
}

int connect_to(ibv_context* context, rdma_event_channel* channel, rdma_cm_id* id, uint16_t port,
               const std::function<void()>& patience) {
  sockaddr_in to = address_at(context, port);
  constexpr int kResolving = 2000;  // ms
  if (rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), kResolving) != 0) return errno;
  if (const int error = await_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, patience)) return error;
  if (rdma_resolve_route(id, kResolving) != 0) return errno;
  if (const int error = await_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, patience)) return error;
  if (const int error = give_queue_pair(id)) return error;
  rdma_conn_param param{};
  param.retry_count = 7;
  param.rnr_retry_count = 7;
  if (rdma_connect(id, &param) != 0) return errno;
  return await_event(channel, RDMA_CM_EVENT_ESTABLISHED, patience);
}

}  // namespace verbs_test
