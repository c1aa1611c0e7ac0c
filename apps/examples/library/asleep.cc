// Sleep until something completes: `asleep` waits for three messages in epoll_wait, `asleep ADDRESS` sends them.
//
// Drive::kBoth: while the program sleeps, a thread of the endpoint drives it.
#include <sys/epoll.h>

#include <optional>

#include "need.h"

using namespace uroce;
using namespace uroce::rdma;

constexpr int kCount = 3;

int main(int argc, char** argv) {
  std::string error;
  const auto endpoint = Endpoint::open({.drive = Drive::kBoth}, nullptr, error);
  need(endpoint != nullptr, error);
  std::optional<Endpoint::Ownership> owner(*endpoint);
  char rows[kCount][32] = {};
  const PdId pd = endpoint->device().allocate_pd();
  CompletionChannel channel = endpoint->device().create_channel();
  CompletionQueue cq = endpoint->device().create_cq(16, &channel);
  const MemoryRegion region = endpoint->device().register_memory(pd, rows, sizeof rows, kLocalWrite);
  QueuePair qp = endpoint->device().create_qp({.pd = pd, .send_cq = &cq, .recv_cq = &cq});

  if (argc > 1) {
    const Connection connection = endpoint->connections().connect(qp, argv[1], 7471, error);
    need(bool(connection), error);
    for (int i = 0; i < kCount; i++) {
      std::snprintf(rows[i], sizeof rows[i], "message %d", i + 1);
      qp.post(Send{.from = region.sge(static_cast<uint32_t>(i) * sizeof rows[i], sizeof rows[i])});
      next(*endpoint, cq);
    }
    std::printf("sent\n");
    return 0;
  }
  qp.initialize(0);
  for (uint64_t i = 0; i < kCount; i++)
    qp.post(Receive{.into = region.sge(i * sizeof rows[i], sizeof rows[i]), .wr_id = i});
  Listener listener = endpoint->connections().listen(7471, error);
  need(bool(listener), error);
  const Connection connection = listener.accept(qp, error);
  need(bool(connection), error);

  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event wanted{.events = EPOLLIN, .data = {}};
  need(epoll_ctl(epoll, EPOLL_CTL_ADD, channel.fd(), &wanted) == 0, "epoll_ctl");
  for (int received = 0; received < kCount;) {
    cq.request_event();  // before the last look, so that nothing comes unseen between the two
    Completion completion;
    if (cq.poll({&completion, 1}) == 1) {
      need(completion.status == WcStatus::kSuccess, cause_text(completion.cause));
      std::printf("%s\n", rows[completion.wr_id]);
      received++;
      continue;
    }
    owner.reset();  // the endpoint is its thread's while this one sleeps
    epoll_event event;
    epoll_wait(epoll, &event, 1, 10'000);
    channel.take();
    owner.emplace(*endpoint);
  }
}
