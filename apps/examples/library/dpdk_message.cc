// A DPDK application that does RDMA on a port of its own: `dpdk_message EAL-ARGUMENTS -- ADDRESS/PREFIX` waits for a
// message, with the address of another one behind that it sends one.
//
//   P=librte_net_shmlan.so          # a port that needs no card: a place on the machine's segment
//   dpdk_message -d $P --no-huge -m 64 --no-pci --file-prefix=a --vdev=net_shmlan0 -- 198.18.0.1/24
//   dpdk_message -d $P --no-huge -m 64 --no-pci --file-prefix=b --vdev=net_shmlan0 -- 198.18.0.2/24 198.18.0.1
//
// Instead of the second one `message 198.18.0.1` will do: it is on the same segment.
#include <rte_eal.h>

#include "need.h"

using namespace uroce;
using namespace uroce::rdma;

int main(int argc, char** argv) {
  const int used = rte_eal_init(argc, argv);
  need(used >= 0 && argc > used + 1, "usage: dpdk_message EAL-ARGUMENTS -- ADDRESS/PREFIX [PEER]");
  const char* const peer = argc > used + 2 ? argv[used + 2] : nullptr;

  EndpointOptions options{.eal_running = true};  // on the application's first port
  options.addresses = {*parse_local_address(argv[used + 1])};
  std::string error;
  const auto endpoint = Endpoint::open(options, nullptr, error);
  need(endpoint != nullptr, error);
  const Endpoint::Ownership owner(*endpoint);  // this thread drives
  Device& device = endpoint->device();
  char text[64] = "a message of a DPDK application";
  const PdId pd = device.allocate_pd();
  CompletionQueue cq = device.create_cq(16);
  const MemoryRegion region = device.register_memory(pd, text, sizeof text, kLocalWrite);
  QueuePair qp = device.create_qp({.pd = pd, .send_cq = &cq, .recv_cq = &cq});
  Connection connection;
  if (peer != nullptr) {
    connection = endpoint->connections().connect(qp, peer, 7471, error);
    if (connection) qp.post(Send{.from = region.sge(0, sizeof text)});
  } else {
    qp.initialize(0);
    qp.post(Receive{.into = region.sge(0, sizeof text)});  // before anybody can send
    Listener listener = endpoint->connections().listen(7471, error);
    if (listener) connection = listener.accept(qp, error);
  }
  need(bool(connection), error);
  next(*endpoint, cq);  // a loop of lcores calls endpoint->drive() and cq.poll() instead
  std::printf("%s: %s\n", peer != nullptr ? "sent" : "received", text);
}
