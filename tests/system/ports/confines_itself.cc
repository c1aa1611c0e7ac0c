// Listens at port argv[1] of connection management, gives up its root directory, as daemons do, and serves one
// connection.
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <unistd.h>

#include <cstdio>

int main(int argc, char** argv) {
  rdma_addrinfo hints{};
  hints.ai_port_space = RDMA_PS_TCP;
  hints.ai_flags = RAI_PASSIVE;
  rdma_addrinfo* found = nullptr;
  ibv_qp_init_attr sizes{};
  sizes.cap = {4, 4, 1, 1, 0};
  rdma_cm_id* listener = nullptr;
  rdma_cm_id* id = nullptr;
  if (argc != 2 || rdma_getaddrinfo("127.0.0.1", argv[1], &hints, &found) != 0 ||
      rdma_create_ep(&listener, found, nullptr, &sizes) != 0 || rdma_listen(listener, 1) != 0)
    return 1;
  if (chdir("/usr/share") != 0 || chroot(".") != 0) return 2;
  std::puts("confined");
  std::fflush(stdout);
  return rdma_get_request(listener, &id) == 0 && rdma_accept(id, nullptr) == 0 ? 0 : 3;
}
