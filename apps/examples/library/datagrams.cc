// Datagrams to a group: `datagrams GROUP` waits for three, any number of these; `datagrams -s GROUP` sends them.
#include <cstring>

#include "need.h"

using namespace uroce;
using namespace uroce::rdma;

constexpr uint32_t kQkey = 0x1234;  // the group's members agree on it
constexpr int kCount = 3;

int main(int argc, char** argv) {
  const bool sends = argc == 3 && std::strcmp(argv[1], "-s") == 0;
  const auto group = parse_ip(argv[argc - 1]);
  need(argc == (sends ? 3 : 2) && group && group->is_multicast(), "usage: datagrams [-s] GROUP");
  std::string error;
  const auto endpoint = Endpoint::open({}, nullptr, error);
  need(endpoint != nullptr, error);
  const Endpoint::Ownership owner(*endpoint);
  char rows[kCount][kGrhBytes + 32] = {};
  const PdId pd = endpoint->device().allocate_pd();
  CompletionQueue cq = endpoint->device().create_cq(16);
  const MemoryRegion region = endpoint->device().register_memory(pd, rows, sizeof rows, kLocalWrite);
  QueuePair qp = endpoint->device().create_qp({.type = QpType::kUd, .pd = pd, .send_cq = &cq, .recv_cq = &cq});
  qp.activate(kQkey);

  if (sends) {
    const Destination all = endpoint->device().create_destination(pd, {.dgid = *group, .sgid_index = 1});
    need(bool(all), "no address of this machine leads to the group");
    for (int i = 0; i < kCount; i++) {
      const auto bytes = static_cast<uint32_t>(std::snprintf(rows[i], sizeof rows[i], "datagram %d", i + 1)) + 1;
      const Sge from = region.sge(static_cast<uint32_t>(i) * sizeof rows[i], bytes);
      qp.post(Datagram{.from = from, .to = all, .qp_num = kMulticastQp, .qkey = kQkey});
      next(*endpoint, cq);
    }
    std::printf("sent %d datagrams\n", kCount);
  } else {
    for (uint64_t i = 0; i < kCount; i++)
      qp.post(Receive{.into = region.sge(i * sizeof rows[i], sizeof rows[i]), .wr_id = i});
    need(qp.attach(*group), "cannot attach to the group");
    std::printf("attached\n");
    std::fflush(stdout);
    for (int i = 0; i < kCount; i++) std::printf("%s\n", rows[next(*endpoint, cq).wr_id] + kGrhBytes);
  }
}
