// Endpoints: a connection without an event loop. Each call returns when what it does is done.
//
//   endpoints [-p PORT]            server: answers one client
//   endpoints [-p PORT] ADDRESS    client: sends three lines, and prints the answers
#include <netdb.h>
#include <rdma/rdma_verbs.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>

#include "check.h"

namespace {

using examples::fail;
using examples::need;
using examples::need_zero;

constexpr const char* kLines[] = {"one connection,", "two endpoints,", "and no event loop"};
constexpr size_t kLineBytes = 64;

using Id = std::unique_ptr<rdma_cm_id, examples::Calls<rdma_destroy_ep>>;
using Region = std::unique_ptr<ibv_mr, examples::Calls<rdma_dereg_mr>>;

/// A connection, and memory for one line in each direction.
class Line {
 public:
  explicit Line(rdma_cm_id* id)
      : id_(id),
        in_region_(need(rdma_reg_msgs(id, in_, sizeof in_), "rdma_reg_msgs")),
        out_region_(need(rdma_reg_msgs(id, out_, sizeof out_), "rdma_reg_msgs")) {}

  /// To be called before the peer can send: a message that finds no receive has to be sent again.
  void expect() { need_zero(rdma_post_recv(id_, nullptr, in_, sizeof in_, in_region_.get()), "rdma_post_recv"); }

  /// Waits for what is expected.
  const char* receive() {
    ibv_wc wc;
    if (rdma_get_recv_comp(id_, &wc) != 1) fail("rdma_get_recv_comp", std::strerror(errno));
    if (wc.status != IBV_WC_SUCCESS) fail("receiving a line", ibv_wc_status_str(wc.status));
    in_[sizeof in_ - 1] = '\0';
    return in_;
  }

  /// Returns when the peer has it, so that the memory is free again.
  void send(const char* line) {
    std::snprintf(out_, sizeof out_, "%s", line);
    need_zero(rdma_post_send(id_, nullptr, out_, sizeof out_, out_region_.get(), 0), "rdma_post_send");
    ibv_wc wc;
    if (rdma_get_send_comp(id_, &wc) != 1) fail("rdma_get_send_comp", std::strerror(errno));
    if (wc.status != IBV_WC_SUCCESS) fail("sending a line", ibv_wc_status_str(wc.status));
  }

 private:
  rdma_cm_id* id_;
  char in_[kLineBytes] = "";
  char out_[kLineBytes] = "";
  Region in_region_;
  Region out_region_;
};

/// Makes an endpoint with a queue pair, or a listener with the attributes of the queue pairs that it will make.
Id make_endpoint(const char* address, const char* port) {
  rdma_addrinfo hints{};
  hints.ai_port_space = RDMA_PS_TCP;
  if (address == nullptr) hints.ai_flags = RAI_PASSIVE;
  rdma_addrinfo* found = nullptr;
  const int error = rdma_getaddrinfo(address, port, &hints, &found);
  if (error != 0) fail("rdma_getaddrinfo", error == -1 ? std::strerror(errno) : gai_strerror(error));

  ibv_qp_init_attr attr{};
  attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  attr.sq_sig_all = 1;
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
  Line line(id.get());
  line.expect();
  need_zero(rdma_accept(id.get(), nullptr), "rdma_accept");
  for (size_t i = 0; i < std::size(kLines); i++) {
    std::string text = line.receive();
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
    line.expect();  // the next one, before the client can send it
    line.send(text.c_str());
  }
  rdma_disconnect(id.get());
}

void ask(const char* address, const char* port) {
  const Id id = make_endpoint(address, port);
  Line line(id.get());
  line.expect();
  need_zero(rdma_connect(id.get(), nullptr), "rdma_connect");
  for (const char* text : kLines) {
    line.send(text);
    std::printf("%s\n", line.receive());
    line.expect();
  }
  rdma_disconnect(id.get());
}

}  // namespace

int main(int argc, char** argv) {
  const char* port = "7471";
  for (int option; (option = getopt(argc, argv, "p:")) != -1;) {
    if (option != 'p') return 2;
    port = optarg;
  }
  optind < argc ? ask(argv[optind], port) : serve(port);
}
