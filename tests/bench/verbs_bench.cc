// What calls cost a verbs program that wait for nothing: a poll that finds nothing, and a queue pair that is made and
// destroyed.
//
//   uroce run -- verbs_bench [SEND_INLINE_BYTES]
//
// A row is the best and the median of many short runs. The queue pairs are made as many programs make them: as many
// receives as sends, one element, and inline data of the size that is asked for (default: 220, what perftest asks for).
#include <infiniband/verbs.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double ns_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

/// The best and the median.
void print(const char* what, std::vector<double> ns) {
  std::sort(ns.begin(), ns.end());
  std::printf("%-38s %10.0f %10.0f\n", what, ns.front(), ns[ns.size() / 2]);
}

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

struct Device {
  Device() {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    if (count == 0) fail("no device; run it with `uroce run --`");
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    if (context == nullptr) fail("ibv_open_device");
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 256, nullptr, nullptr, 0);
    if (pd == nullptr || cq == nullptr) fail("ibv_alloc_pd, ibv_create_cq");
  }
  ~Device() {
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
    ibv_close_device(context);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
};

/// Half a second of polls.
void poll_empty(const Device& device) {
  constexpr int kPolls = 200;
  std::vector<double> ns;
  ibv_wc wc;
  const auto start = Clock::now();
  while (ns_since(start) < 5e8) {
    const auto begin = Clock::now();
    for (int i = 0; i < kPolls; i++) {
      if (ibv_poll_cq(device.cq, 1, &wc) != 0) fail("ibv_poll_cq found something");
    }
    ns.push_back(ns_since(begin) / kPolls);
  }
  print("empty ibv_poll_cq", ns);
}

/// `held`: how many exist at once. With one, each has the memory that the previous one freed; with many, fresh memory.
void make_and_destroy(const Device& device, uint32_t slots, uint32_t inline_bytes, uint32_t held) {
  constexpr uint32_t kQps = 300;
  std::vector<double> create;
  std::vector<double> destroy;
  std::vector<ibv_qp*> qps;
  for (uint32_t i = 0; i < kQps; i++) {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = device.cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {slots, slots, 1, 1, inline_bytes};
    const auto begin = Clock::now();
    qps.push_back(ibv_create_qp(device.pd, &attr));
    create.push_back(ns_since(begin));
    if (qps.back() == nullptr) fail("ibv_create_qp");
    if (qps.size() < held) continue;
    for (ibv_qp* qp : qps) {
      const auto middle = Clock::now();
      if (ibv_destroy_qp(qp) != 0) fail("ibv_destroy_qp");
      destroy.push_back(ns_since(middle));
    }
    qps.clear();
  }
  char what[64];
  std::snprintf(what, sizeof what, "ibv_create_qp, %u slots, %u held", slots, held);
  print(what, create);
  std::snprintf(what, sizeof what, "ibv_destroy_qp, %u slots, %u held", slots, held);
  print(what, destroy);
}

}  // namespace

int main(int argc, char** argv) {
  const auto inline_bytes = static_cast<uint32_t>(argc > 1 ? std::strtoul(argv[1], nullptr, 0) : 220);
  const Device device;
  std::printf("%-38s %10s %10s\n", "", "best ns", "median ns");
  poll_empty(device);
  for (const uint32_t held : {1u, 100u}) {
    for (const uint32_t slots : {16u, 1024u, 16384u}) make_and_destroy(device, slots, inline_bytes, held);
  }
  return 0;
}
