// Opens the device, gives up rights, as daemons do, and then meets a program that it does not know.
//
//   confines_itself listen|connect PORT chroot|setuid|both
//
// Says "ready", waits for a line if it is the one that connects, and exchanges some messages, asleep in between.
#include <grp.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kRounds = 20;
constexpr size_t kBytes = 64;
constexpr unsigned kNobody = 65534;

void need(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::exit(2);
}

void confine(const std::string& how) {
  if (how != "setuid") need(chdir("/usr/share") == 0 && chroot(".") == 0, "chroot");
  if (how != "chroot") need(setgroups(0, nullptr) == 0 && setgid(kNobody) == 0 && setuid(kNobody) == 0, "setuid");
}

/// Each message is answered, so both sides sleep again and again.
void exchange(rdma_cm_id* id, ibv_mr* mr, char* memory, bool first) {
  ibv_wc done{};
  for (int round = 0; round < kRounds; round++) {
    if (first) {
      need(rdma_post_send(id, nullptr, memory, kBytes, mr, 0) == 0, "post");
      need(rdma_get_send_comp(id, &done) == 1 && done.status == IBV_WC_SUCCESS, "send");
    }
    need(rdma_get_recv_comp(id, &done) == 1 && done.status == IBV_WC_SUCCESS, "receive");
    need(rdma_post_recv(id, nullptr, memory + kBytes, kBytes, mr) == 0, "post");
    if (first) continue;
    need(rdma_post_send(id, nullptr, memory, kBytes, mr, 0) == 0, "post");
    need(rdma_get_send_comp(id, &done) == 1 && done.status == IBV_WC_SUCCESS, "send");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 1;
  const bool listens = std::strcmp(argv[1], "listen") == 0;
  rdma_addrinfo hints{};
  hints.ai_port_space = RDMA_PS_TCP;
  hints.ai_flags = listens ? RAI_PASSIVE : 0;
  rdma_addrinfo* found = nullptr;
  ibv_qp_init_attr sizes{};
  sizes.cap = {4, 4, 1, 1, 0};
  sizes.sq_sig_all = 1;
  rdma_cm_id* listener = nullptr;
  rdma_cm_id* id = nullptr;
  need(rdma_getaddrinfo("127.0.0.1", argv[2], &hints, &found) == 0, "rdma_getaddrinfo");
  need(rdma_create_ep(listens ? &listener : &id, found, nullptr, &sizes) == 0, "rdma_create_ep");
  if (listens) need(rdma_listen(listener, 1) == 0, "rdma_listen");
  if (argc > 3) confine(argv[3]);
  std::puts("ready");
  std::fflush(stdout);
  if (!listens && argc > 3) need(std::getchar() != EOF, "go");
  if (listens) need(rdma_get_request(listener, &id) == 0, "rdma_get_request");
  alignas(4096) static char memory[2 * kBytes];
  ibv_mr* const mr = rdma_reg_msgs(id, memory, sizeof memory);
  need(mr != nullptr && rdma_post_recv(id, nullptr, memory + kBytes, kBytes, mr) == 0, "rdma_post_recv");
  need((listens ? rdma_accept(id, nullptr) : rdma_connect(id, nullptr)) == 0, "connection");
  exchange(id, mr, memory, !listens);
  std::puts("fine");
}
