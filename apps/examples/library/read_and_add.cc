// READ and an atomic: `read_and_add` keeps a table with a counter, `read_and_add ADDRESS` takes a number and reads the
// row of that number. The owner's program does nothing meanwhile but drive its endpoint.
#include "need.h"

using namespace uroce;
using namespace uroce::rdma;

struct Table {
  uint64_t next = 0;
  char rows[4][32] = {"the first", "the second", "the third", "the fourth"};
};

int main(int argc, char** argv) {
  std::string error;
  const auto endpoint = Endpoint::open({}, nullptr, error);
  need(endpoint != nullptr, error);
  const Endpoint::Ownership owner(*endpoint);
  Table table;
  const PdId pd = endpoint->device().allocate_pd();
  CompletionQueue cq = endpoint->device().create_cq(16);
  const MemoryRegion region =
      endpoint->device().register_memory(pd, &table, sizeof table, kLocalWrite | kRemoteRead | kRemoteAtomic);
  QueuePair qp = endpoint->device().create_qp({.pd = pd, .send_cq = &cq, .recv_cq = &cq});

  if (argc == 1) {
    Listener listener = endpoint->connections().listen(7471, error);
    need(bool(listener), error);
    const RemoteMemory own = region.remote();
    const Connection connection = listener.accept(qp, error, {.private_data = bytes_of(own)});
    need(bool(connection), error);
    while (connection) endpoint->drive();
    std::printf("numbers given: %d\n", static_cast<int>(table.next));
  } else {
    const Connection connection = endpoint->connections().connect(qp, argv[1], 7471, error);
    need(bool(connection), error);
    const auto peer = connection.private_data_as<RemoteMemory>();
    for (int i = 0; i < 3; i++) {
      qp.post(FetchAdd{.into = region.sge(0, sizeof table.next), .at = *peer, .add = 1});
      next(*endpoint, cq);
      const auto row = static_cast<uint32_t>(offsetof(Table, rows) + table.next % 4 * sizeof table.rows[0]);
      qp.post(RdmaRead{.into = region.sge(row, sizeof table.rows[0]), .from = peer->at(row)});
      next(*endpoint, cq);
      std::printf("number %d: %s\n", static_cast<int>(table.next), table.rows[table.next % 4]);
    }
  }
}
