// Listens as soon as that is possible, says which errors it had until then, and serves one connection.
//
//   patient_listener PORT [opened]
//
// Says "started", with `opened` after it has opened the device, and waits for a line. Each error that differs from the
// one before is a line; then "ready" and, once a peer has connected and gone, "fine".
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace {

constexpr int kTries = 300;
constexpr useconds_t kPauseUs = 100'000;

void say(const char* text) {
  std::puts(text);
  std::fflush(stdout);
}

/// Returns an errno.
int listen_at(const char* port, rdma_event_channel*& channel, rdma_cm_id*& id) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::atoi(port)));
  if (channel == nullptr) channel = rdma_create_event_channel();
  if (channel == nullptr || rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) return errno;
  const bool listens = rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)) == 0 && rdma_listen(id, 1) == 0;
  const int code = listens ? 0 : errno;
  if (!listens) rdma_destroy_id(id);
  return code;
}

rdma_cm_event_type next_event(rdma_event_channel* channel, rdma_cm_id*& id) {
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel, &event) != 0) std::exit(3);
  const rdma_cm_event_type type = event->event;
  id = event->id;
  rdma_ack_cm_event(event);
  return type;
}

/// Returns false when something else happens.
bool serve(rdma_event_channel* channel) {
  rdma_cm_id* id = nullptr;
  if (next_event(channel, id) != RDMA_CM_EVENT_CONNECT_REQUEST) return false;
  ibv_qp_init_attr sizes{};
  sizes.cap = {4, 4, 1, 1, 0};
  sizes.qp_type = IBV_QPT_RC;
  rdma_conn_param param{};
  if (rdma_create_qp(id, nullptr, &sizes) != 0 || rdma_accept(id, &param) != 0) return false;
  if (next_event(channel, id) != RDMA_CM_EVENT_ESTABLISHED) return false;
  const rdma_cm_event_type last = next_event(channel, id);
  return last == RDMA_CM_EVENT_DISCONNECTED && rdma_disconnect(id) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 1;
  if (argc > 2) {
    ibv_device** const list = ibv_get_device_list(nullptr);
    if (list == nullptr || list[0] == nullptr || ibv_open_device(list[0]) == nullptr) return 2;
  }
  say("started");
  if (std::getchar() == EOF) return 1;
  rdma_event_channel* channel = nullptr;
  rdma_cm_id* id = nullptr;
  int before = 0;
  int code = -1;
  for (int i = 0; i < kTries && (code = listen_at(argv[1], channel, id)) != 0; i++) {
    if (code != std::exchange(before, code)) say(std::strerror(code));
    usleep(kPauseUs);
  }
  if (code != 0) return 2;
  say("ready");
  if (!serve(channel)) return 3;
  say("fine");
}
