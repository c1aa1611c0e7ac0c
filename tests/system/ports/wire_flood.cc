// One end of a wire that is full of traffic: sends frames that are no RoCE as fast as the port takes them, and counts
// what arrives. peer_exit.py ends one of two while both are busy.
//
//   wire_flood SECONDS [OPENS]    (configured by UROCE_* like every endpoint; 0: until it is killed)
//
// Closes the endpoint and opens it again until it was open OPENS times. Prints "ready", then ten times a second
// "received N sent N links N". SIGTERM ends it in order.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "dpdk/endpoint_impl.h"
#include "transport/counters.h"
#include "transport/observer.h"

namespace {

using namespace uroce;

volatile std::sig_atomic_t g_stop = 0;

uint32_t send_burst(EndpointImpl& endpoint) {
  TxFrame frames[Port::kMaxBurst];
  const uint32_t count = endpoint.nic().port().acquire_tx(frames, Port::kMaxBurst);
  for (uint32_t i = 0; i < count; i++) {
    std::memset(frames[i].data, 0, 64);
    std::memset(frames[i].data, 0xff, 6);
    frames[i].data[12] = 0x88;  // the Ethertype for experiments
    frames[i].data[13] = 0xb5;
    frames[i].bytes = 64 + (i * 331) % 4096;
  }
  endpoint.nic().port().send(frames, count);
  return count;
}

/// Opens the endpoint, floods, closes it. False when it could not be opened.
bool flood(long seconds) {
  EndpointConfig config;
  std::string error;
  Observer observer;
  std::unique_ptr<Endpoint> endpoint;
  if (endpoint_config_from_environment(config, error)) endpoint = Endpoint::open(config, observer, error);
  if (!endpoint) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return false;
  }
  auto& impl = static_cast<EndpointImpl&>(*endpoint);
  std::printf("ready\n");
  std::fflush(stdout);
  uint64_t sent = 0;
  const Instant start = endpoint->now();
  Instant report = start + milliseconds(100);
  while (g_stop == 0 && (seconds == 0 || endpoint->now() < start + milliseconds(1000) * seconds)) {
    {
      const EngineLock owner(*endpoint);
      sent += send_burst(impl);
      endpoint->drive();
    }
    if (endpoint->now() < report) continue;
    report = report + milliseconds(100);
    EngineLock owner(*endpoint);
    uint64_t links = 0;
    impl.nic().for_each_counter([&](const char* name, uint64_t value) {
      if (std::strcmp(name, "link_ups") == 0) links = value;
    });
    std::printf("received %lu sent %lu links %lu\n", owner->counters().rx_drop_not_roce, sent, links);
    std::fflush(stdout);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const long seconds = argc > 1 ? std::atol(argv[1]) : 1;
  const long opens = argc > 2 ? std::atol(argv[2]) : 1;
  std::signal(SIGTERM, [](int) { g_stop = 1; });
  for (long i = 0; i < opens; i++) {
    if (!flood(seconds)) return 1;
  }
  return 0;
}
