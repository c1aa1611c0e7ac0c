// A memory window: `window` lends 64 bytes until they are written, `window ADDRESS` writes into them. Both say how many
// packets they dropped, by the endpoint's counters.
#include <cstddef>

#include "need.h"

using namespace uroce;
using namespace uroce::rdma;

namespace {

struct Memory {
  RemoteMemory offer;  // for the peer: where it may write, and the key to it
  char lent[64] = "";
};

void print_drops(const Endpoint& endpoint) {
  uint64_t drops = 0;
  for (const auto& [name, value] : endpoint.counters()) drops += name.starts_with("rx_drop_") ? value : 0;
  std::printf("%llu packets dropped\n", static_cast<unsigned long long>(drops));
}

}  // namespace

int main(int argc, char** argv) {
  std::string error;
  const auto endpoint = Endpoint::open({}, nullptr, error);
  need(endpoint != nullptr, error);
  const Endpoint::Ownership owner(*endpoint);
  Device& device = endpoint->device();
  Memory memory;
  const PdId pd = device.allocate_pd();
  CompletionQueue cq = device.create_cq(16);
  const MemoryRegion region = device.register_memory(pd, &memory, sizeof memory, kLocalWrite | kMwBind);
  QueuePair qp = device.create_qp({.pd = pd, .send_cq = &cq, .recv_cq = &cq});
  qp.initialize(kRemoteWrite);

  if (argc == 1) {
    qp.post(Receive{});  // the immediate data takes one
    Listener listener = endpoint->connections().listen(7471, error);
    need(bool(listener), error);
    const Connection connection = listener.accept(qp, error);
    need(bool(connection), error);
    MemoryWindow window = device.create_window(pd);
    window.bind(qp, region, offsetof(Memory, lent), sizeof memory.lent, kRemoteWrite);
    memory.offer = window.remote();
    qp.post(Send{.from = region.sge(0, sizeof memory.offer)});  // behind the bind
    for (int i = 0; i < 3; i++) next(*endpoint, cq);            // the bind, the offer, and what the peer wrote
    window.invalidate(qp);
    next(*endpoint, cq);  // from now on nobody writes there
    std::printf("lent and got back: %s\n", memory.lent);
    print_drops(*endpoint);
  } else {
    qp.post(Receive{.into = region.sge(0, sizeof memory.offer)});
    const Connection connection = endpoint->connections().connect(qp, argv[1], 7471, error);
    need(bool(connection), error);
    next(*endpoint, cq);
    const int bytes = std::snprintf(memory.lent, sizeof memory.lent, "through the window") + 1;
    const Sge text = region.sge(offsetof(Memory, lent), static_cast<uint32_t>(bytes));
    qp.post(RdmaWrite{.from = text, .to = memory.offer, .imm = 1});
    next(*endpoint, cq);
    std::printf("written\n");
    print_drops(*endpoint);
  }
}
