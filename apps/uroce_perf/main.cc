// uroce-perf: a DPDK application that measures the transport, and uses only the library (doc/api.md).
//
//   uroce-perf -l 0 --vdev=net_memif0,role=server,... -- --listen
//   uroce-perf -l 1 --vdev=net_memif0,role=client,... -- --connect 198.18.0.1 --op write --size 65536
//
// EAL's arguments come first, as in every DPDK application. One lcore drives the device in a loop; see transfer.h.
#include <rte_eal.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "dpdk/interrupt_guard.h"
#include "options.h"
#include "transfer.h"
#include "uroce/uroce.h"

namespace uroce::perf {
namespace {

Plan plan_of(const rdma::Listener& listener) {
  Plan plan;
  const auto said = listener.private_data();
  if (said.size() >= sizeof plan) std::memcpy(&plan, said.data(), sizeof plan);
  return plan;
}

void print_bandwidth(const Options& o, Duration elapsed) {
  const double seconds = static_cast<double>(elapsed.ns) / 1e9;
  const double messages = static_cast<double>(o.iterations) / seconds;
  std::printf("%-10s %10s %6s %5s %12s %12s %10s\n", "op", "bytes", "depth", "qps", "messages", "MiB/s", "Mmsg/s");
  std::printf("%-10s %10u %6u %5u %12lu %12.1f %10.4f\n", o.op_name.c_str(), o.size, o.depth, o.qps, o.iterations,
              messages * o.size / (1 << 20), messages / 1e6);
}

void print_latency(const Options& o, std::vector<int64_t>& samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double share) {
    const auto index = static_cast<size_t>(share * static_cast<double>(samples.size() - 1));
    return static_cast<double>(samples[index]) / 1000;
  };
  std::printf("%-10s %10s %12s   from post to completion, us\n", "op", "bytes", "messages");
  std::printf("%-10s %10u %12zu   min %.2f  50%% %.2f  90%% %.2f  99%% %.2f  99.9%% %.2f  max %.2f\n",
              o.op_name.c_str(), o.size, samples.size(), at(0), at(0.5), at(0.9), at(0.99), at(0.999), at(1));
}

void measure(rdma::Endpoint& endpoint, const Options& options, Transfer& transfer) {
  transfer.run(std::max<uint64_t>(options.iterations / 10, 1), [](int64_t) {});  // warms caches, resolves addresses
  std::vector<int64_t> samples;
  if (options.latency) samples.reserve(options.iterations);
  const Instant start = endpoint.now();
  transfer.run(options.iterations, [&](int64_t ns) {
    if (options.latency) samples.push_back(ns);
  });
  if (options.latency) {
    print_latency(options, samples);
  } else {
    print_bandwidth(options, endpoint.now() - start);
  }
}

/// Waits for a client, and carries out its plan.
void serve(rdma::Endpoint& endpoint, Options options) {
  rdma::Listener listener;
  struct Closing {  // the listener goes under an Ownership, too
    rdma::Endpoint& endpoint;
    rdma::Listener& listener;
    ~Closing() {
      const rdma::Endpoint::Ownership owner(endpoint);
      listener = {};
    }
  } const closing{endpoint, listener};
  std::string error;
  {
    const rdma::Endpoint::Ownership owner(endpoint);
    listener = endpoint.connections().listen(options.rdma_port, error);
    if (!listener) throw std::runtime_error(error);
  }
  for (bool asked = false; !asked;) {
    const rdma::Endpoint::Ownership owner(endpoint);
    endpoint.drive();
    asked = listener.waiting() != 0;
    if (asked) plan_of(listener).apply_to(options);
  }
  Transfer transfer(endpoint, options);
  transfer.accept(listener);
  while (transfer.connected()) transfer.serve();
}

void run(rdma::Endpoint& endpoint, const Options& options) {
  if (options.listen) return serve(endpoint, options);
  Transfer transfer(endpoint, options);
  transfer.connect();
  measure(endpoint, options, transfer);
}

}  // namespace
}  // namespace uroce::perf

int main(int argc, char** argv) {
  using namespace uroce;
  perf::Options options;
  int code = 0;
  // EAL has none of these, and needs no machine to be asked for them.
  const std::string_view first = argc == 2 ? argv[1] : "";
  if ((first == "--help" || first == "--version") && !perf::parse_options(argc, argv, options, code)) return code;
  const int used = rte_eal_init(argc, argv);
  if (used < 0) {
    std::fprintf(stderr,
                 "uroce-perf: EAL did not start; its arguments come first, then --, then those of uroce-perf\n");
    return 2;
  }
  if (!perf::parse_options(argc - used, argv + used, options, code)) return code;

  rdma::EndpointOptions config;
  config.eal_running = true;
  config.port = options.port;
  config.addresses = options.addresses;
  config.drive = rdma::Drive::kProgram;  // this thread drives
  std::string error;
  try {
    const auto endpoint = rdma::Endpoint::open(config, nullptr, error);
    if (!endpoint) throw std::runtime_error(error);
    perf::run(*endpoint, options);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "uroce-perf: %s\n", failure.what());
    code = 1;
  }
  park_interrupt_thread();
  rte_eal_cleanup();
  return code;
}
