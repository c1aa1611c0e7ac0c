// RDMA WRITE: `write` lends its memory, `write ADDRESS` writes into it and says so with immediate data.
#include "need.h"

using namespace uroce;
using namespace uroce::rdma;

int main(int argc, char** argv) {
  std::string error;
  const auto endpoint = Endpoint::open({}, nullptr, error);
  need(endpoint != nullptr, error);
  const Endpoint::Ownership owner(*endpoint);
  char page[4096] = "";
  const PdId pd = endpoint->device().allocate_pd();
  CompletionQueue cq = endpoint->device().create_cq(16);
  const MemoryRegion region = endpoint->device().register_memory(pd, page, sizeof page, kLocalWrite | kRemoteWrite);
  QueuePair qp = endpoint->device().create_qp({.pd = pd, .send_cq = &cq, .recv_cq = &cq});

  if (argc == 1) {
    qp.initialize(kRemoteWrite);
    qp.post(Receive{});  // the immediate data takes one, without a byte of it
    Listener listener = endpoint->connections().listen(7471, error);
    need(bool(listener), error);
    const RemoteMemory own = region.remote();  // for the peer: where it may write, and the key to it
    const Connection connection = listener.accept(qp, error, {.private_data = bytes_of(own)});
    need(bool(connection), error);
    const Completion told = next(*endpoint, cq);
    std::printf("%u bytes: %s\n", told.byte_len, page);
  } else {
    const Connection connection = endpoint->connections().connect(qp, argv[1], 7471, error);
    need(bool(connection), error);
    const auto peer = connection.private_data_as<RemoteMemory>();
    const int bytes = std::snprintf(page, sizeof page, "written from afar") + 1;
    qp.post(RdmaWrite{.from = region.sge(0, static_cast<uint32_t>(bytes)), .to = *peer, .imm = 1});
    next(*endpoint, cq);
    std::printf("written\n");
  }
}
