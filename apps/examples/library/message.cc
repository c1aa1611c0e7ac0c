// A message: `message` waits for it, `message ADDRESS` sends it.
#include <uroce/uroce.h>

#include <cstdio>
#include <string>

using namespace uroce;
using namespace uroce::rdma;

int main(int argc, char** argv) {
  std::string error;
  const auto endpoint = Endpoint::open({}, nullptr, error);
  if (endpoint == nullptr) return std::fprintf(stderr, "%s\n", error.c_str()), 1;
  const Endpoint::Ownership owner(*endpoint);
  char text[64] = "one message";
  const PdId pd = endpoint->device().allocate_pd();
  CompletionQueue cq = endpoint->device().create_cq(16);
  const MemoryRegion region = endpoint->device().register_memory(pd, text, sizeof text, kLocalWrite);
  QueuePair qp = endpoint->device().create_qp({.pd = pd, .send_cq = &cq, .recv_cq = &cq});

  Connection connection;
  if (argc > 1) {
    connection = endpoint->connections().connect(qp, argv[1], 7471, error);
    if (connection) qp.post(Send{.from = region.sge(0, sizeof text)});
  } else {
    qp.initialize(0);
    qp.post(Receive{.into = region.sge(0, sizeof text)});  // before anybody can send
    text[0] = '\0';
    Listener listener = endpoint->connections().listen(7471, error);
    if (listener) connection = listener.accept(qp, error);
  }
  if (!connection) return std::fprintf(stderr, "%s\n", error.c_str()), 1;
  Completion done;
  if (endpoint->wait(cq, {&done, 1}) != 1 || done.status != WcStatus::kSuccess) return 1;
  std::printf("%s: %s\n", argc > 1 ? "sent" : "received", text);
}
