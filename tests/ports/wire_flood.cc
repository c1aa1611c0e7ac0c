// One end of a wire that is full of traffic: sends frames that are no RoCE as fast as the port takes them, and counts
// what arrives. peer_exit.py ends one of two while both are busy.
//
//   wire_flood SECONDS    (configured by UROCE_* like every endpoint; 0: until it is killed)
//
// Prints "ready", then ten times a second "received N sent N links N". SIGTERM ends it in order.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "dpdk/endpoint_impl.h"

namespace {

using namespace uroce;

volatile std::sig_atomic_t g_stop = 0;

uint32_t send_burst(EndpointImpl& endpoint) {
  TxFrame frames[Port::kMaxBurst];
  const uint32_t count = endpoint.port().acquire_tx(frames, Port::kMaxBurst);
  for (uint32_t i = 0; i < count; i++) {
    std::memset(frames[i].data, 0, 64);
    std::memset(frames[i].data, 0xff, 6);
    frames[i].data[12] = 0x88;  // an Ethertype for experiments
    frames[i].data[13] = 0xb5;
    frames[i].bytes = 64 + (i * 331) % 4096;
  }
  endpoint.port().send(frames, count);
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  const long seconds = argc > 1 ? std::atol(argv[1]) : 1;
  EndpointConfig config;
  std::string error;
  Observer observer;
  std::unique_ptr<Endpoint> endpoint;
  if (endpoint_config_from_environment(config, error)) endpoint = Endpoint::open(config, observer, error);
  if (!endpoint) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return 1;
  }
  auto& impl = static_cast<EndpointImpl&>(*endpoint);
  std::signal(SIGTERM, [](int) { g_stop = 1; });
  std::printf("ready\n");
  std::fflush(stdout);
  uint64_t sent = 0;
  const Instant start = endpoint->now();
  Instant report = start + milliseconds(100);
  while (!g_stop && (seconds == 0 || endpoint->now() < start + milliseconds(1000) * seconds)) {
    {
      EngineLock owner(*endpoint);
      sent += send_burst(impl);
      endpoint->drive();
    }
    if (endpoint->now() < report) continue;
    report = report + milliseconds(100);
    EngineLock owner(*endpoint);
    std::printf("received %lu sent %lu links %lu\n", owner->counters().rx_drop_not_roce, sent,
                impl.port().counters().link_ups);
    std::fflush(stdout);
  }
  return 0;
}
