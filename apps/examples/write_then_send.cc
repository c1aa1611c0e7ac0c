// RDMA WRITE, then SEND: the client puts data into the server's memory, and a message behind it says that it is there.
//
//   write_then_send [-p PORT]            server: offers memory to one client
//   write_then_send [-p PORT] ADDRESS    client: fills it
//
// A queue pair carries out its work requests in order, so the message cannot overtake the data. The client gets the
// address and the key of the memory with the server's acceptance.
#include <netdb.h>
#include <rdma/rdma_verbs.h>
#include <unistd.h>

#include <vector>

#include "check.h"

namespace {

using examples::fail;
using examples::need;
using examples::need_zero;

constexpr size_t kBytes = 1 << 20;
constexpr size_t kPieceBytes = 64 << 10;

using Id = std::unique_ptr<rdma_cm_id, examples::Calls<rdma_destroy_ep>>;
using Region = std::unique_ptr<ibv_mr, examples::Calls<rdma_dereg_mr>>;

/// Sent as it is: both sides are on one machine, and have the same byte order.
struct Offer {
  uint64_t address;
  uint64_t bytes;
  uint32_t key;
};

struct Done {
  uint64_t bytes;
};

uint8_t byte_at(size_t i) { return static_cast<uint8_t>(i * 131 >> 3); }

Id make_endpoint(const char* address, const char* port) {
  rdma_addrinfo hints{};
  hints.ai_port_space = RDMA_PS_TCP;
  if (address == nullptr) hints.ai_flags = RAI_PASSIVE;
  rdma_addrinfo* found = nullptr;
  const int error = rdma_getaddrinfo(address, port, &hints, &found);
  if (error != 0) fail("rdma_getaddrinfo", error == -1 ? std::strerror(errno) : gai_strerror(error));
  ibv_qp_init_attr attr{};
  attr.cap = {.max_send_wr = kBytes / kPieceBytes + 1,
              .max_recv_wr = 1,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  rdma_cm_id* id = nullptr;
  need_zero(rdma_create_ep(&id, found, nullptr, &attr), "rdma_create_ep");
  rdma_freeaddrinfo(found);
  return Id(id);
}

void serve(const char* port) {
  const Id listener = make_endpoint(nullptr, port);
  need_zero(rdma_listen(listener.get(), 0), "rdma_listen");
  std::printf("listening to port %s\n", port);
  std::fflush(stdout);
  rdma_cm_id* request = nullptr;
  need_zero(rdma_get_request(listener.get(), &request), "rdma_get_request");
  const Id id(request);

  std::vector<uint8_t> memory(kBytes);
  const Region region(need(rdma_reg_write(id.get(), memory.data(), memory.size()), "rdma_reg_write"));
  Done done{};
  const Region done_region(need(rdma_reg_msgs(id.get(), &done, sizeof done), "rdma_reg_msgs"));
  need_zero(rdma_post_recv(id.get(), nullptr, &done, sizeof done, done_region.get()), "rdma_post_recv");

  const Offer offer{reinterpret_cast<uint64_t>(memory.data()), memory.size(), region->rkey};
  rdma_conn_param param{};
  param.private_data = &offer;
  param.private_data_len = sizeof offer;
  param.responder_resources = param.initiator_depth = 1;
  param.rnr_retry_count = 7;
  need_zero(rdma_accept(id.get(), &param), "rdma_accept");

  // A WRITE completes nothing here. Only the message tells of it.
  ibv_wc wc;
  if (rdma_get_recv_comp(id.get(), &wc) != 1) fail("rdma_get_recv_comp", std::strerror(errno));
  if (wc.status != IBV_WC_SUCCESS) fail("receiving the message", ibv_wc_status_str(wc.status));
  for (size_t i = 0; i < done.bytes; i++) {
    if (memory[i] != byte_at(i)) fail("comparing", "the data differs");
  }
  std::printf("%zu bytes are there, and right\n", static_cast<size_t>(done.bytes));
  rdma_disconnect(id.get());
}

void fill(const char* address, const char* port) {
  const Id id = make_endpoint(address, port);
  std::vector<uint8_t> data(kBytes);
  for (size_t i = 0; i < data.size(); i++) data[i] = byte_at(i);
  const Region region(need(rdma_reg_msgs(id.get(), data.data(), data.size()), "rdma_reg_msgs"));
  rdma_conn_param param{};
  param.responder_resources = param.initiator_depth = 1;
  param.retry_count = param.rnr_retry_count = 7;
  need_zero(rdma_connect(id.get(), &param), "rdma_connect");

  const rdma_conn_param& accepted = id->event->param.conn;
  Offer offer;
  if (accepted.private_data_len < sizeof offer) fail("rdma_connect", "the server offers no memory");
  std::memcpy(&offer, accepted.private_data, sizeof offer);
  if (offer.bytes < data.size()) fail("the server's memory", "it is too small");

  // Only the last one asks for a completion: when it has ended, so have all before it.
  for (size_t at = 0; at < data.size(); at += kPieceBytes) {
    need_zero(
        rdma_post_write(id.get(), nullptr, &data[at], kPieceBytes, region.get(), 0, offer.address + at, offer.key),
        "rdma_post_write");
  }
  Done done{data.size()};
  const Region done_region(need(rdma_reg_msgs(id.get(), &done, sizeof done), "rdma_reg_msgs"));
  need_zero(rdma_post_send(id.get(), nullptr, &done, sizeof done, done_region.get(), IBV_SEND_SIGNALED),
            "rdma_post_send");
  ibv_wc wc;
  if (rdma_get_send_comp(id.get(), &wc) != 1) fail("rdma_get_send_comp", std::strerror(errno));
  if (wc.status != IBV_WC_SUCCESS) fail("writing and sending", ibv_wc_status_str(wc.status));
  std::printf("wrote %zu bytes\n", data.size());
  rdma_disconnect(id.get());
}

}  // namespace

int main(int argc, char** argv) {
  const char* port = "7471";
  for (int option; (option = getopt(argc, argv, "p:")) != -1;) {
    if (option != 'p') return 2;
    port = optarg;
  }
  optind < argc ? fill(argv[optind], port) : serve(port);
}
