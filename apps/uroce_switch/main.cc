// uroce-switch: the fabric's switch in real time between DPDK ports.
//
//   uroce-switch --name lab --ports 4 --rate 1G --impair 'loss 1%'
//   uroce-switch -l 1 --no-huge --vdev=net_af_packet0,iface=veth0 --vdev=... -- OPTIONS
//
// EAL's arguments come before a `--`, as in every DPDK application; without a `--`, EAL is started as `uroce run` does.
#include <rte_eal.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "dpdk/eal.h"
#include "dpdk/log.h"
#include "host/endpoint_options.h"
#include "live_switch.h"
#include "options.h"
#include "ports.h"
#include "report.h"
#include "telemetry.h"

namespace uroce::netswitch {
namespace {

std::atomic<bool> g_stop{false};
std::atomic<bool> g_print{false};

void on_stop(int /*signal*/) { g_stop = true; }
void on_print(int /*signal*/) { g_print = true; }

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = on_stop;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = on_print;
  sigaction(SIGUSR1, &action, nullptr);
}

bool start_given_eal(Options& options, std::string& error) {
  const QuietDpdk quiet;
  std::vector<char*> argv;
  for (std::string& word : options.eal_arguments) argv.push_back(word.data());
  if (rte_eal_init(static_cast<int>(argv.size()), argv.data()) >= 0) return true;
  error = "EAL did not start";
  if (const std::string why = quiet.first_error(); !why.empty()) error += " (" + why + ")";
  error += "; its arguments come first, then --, then those of uroce-switch";
  return false;
}

bool start_own_eal(const Options& options, const std::vector<PlannedPort>& ports, std::string& error) {
  EalOptions eal;
  eal.hugepages = Hugepages::kNo;  // frames are copied from port to port within the cache
  for (const PlannedPort& port : ports) {
    if (port.plan.spec.kind != PortKind::kPci) continue;
    eal.hugepages = Hugepages::kAuto;
    if (eal.pci_device.empty()) {
      eal.pci_device = port.plan.devargs;
    } else {
      eal.extra_args.insert(eal.extra_args.end(), {"-a", port.plan.devargs});
    }
  }
  const uint64_t megabytes = (pool_bytes(options, ports) >> 20) + 64;
  if (eal.hugepages == Hugepages::kNo) eal.extra_args.insert(eal.extra_args.end(), {"-m", std::to_string(megabytes)});
  if (const char* more = std::getenv("UROCE_EAL")) {
    for (const std::string& word : split_words(more)) eal.extra_args.push_back(word);
  }
  return start_eal(eal, error);
}

void greet(const LiveSwitch& live) {
  const Options& options = live.options();
  for (const auto& link : live.links()) {
    std::printf("port %u: %s\n", link->config().id, link->config().name.c_str());
  }
  if (options.ports.value_or(0) != 0) {
    std::printf("plug a program in: uroce run --port switch:%s -- PROGRAM\n", options.name.c_str());
  }
  std::printf("switch '%s' is ready\n", options.name.c_str());
  std::fflush(stdout);
}

void watch(LiveSwitch& live) {
  const Duration period = milliseconds(int64_t{live.options().stats_s} * 1000);
  Duration next = period;
  live.run(g_stop, [&] {
    const bool due = period.ns != 0 && live.uptime() >= next;
    if (due) next = Duration{next.ns + period.ns};
    if (due || g_print.exchange(false)) print_table(stdout, live);
  });
}

bool run(Options& options, bool& eal_started, std::string& error) {
  static EngineMutex lock;  // static, because the telemetry thread uses it as long as the process lives
  std::vector<PlannedPort> ports;
  if (!plan_named_ports(options, ports, error)) return false;
  if (!(options.eal_given ? start_given_eal(options, error) : start_own_eal(options, ports, error))) return false;
  eal_started = true;
  SwitchSign sign;
  const std::string socket = eal_directory() + "/dpdk_telemetry.v2";
  if (!sign.put_up(options.name, *options.ports, socket, error)) return false;
  if (!probe_ports(options, sign, ports, error)) return false;
  LiveSwitch live(options, lock);
  if (!live.start(ports, error)) return false;
  publish(&live, lock);
  catch_signals();
  greet(live);
  watch(live);
  publish(nullptr, lock);
  print_table(stdout, live);
  return true;
}

}  // namespace
}  // namespace uroce::netswitch

int main(int argc, char** argv) {
  using namespace uroce;
  netswitch::Options options;
  int code = 0;
  if (!netswitch::parse_options(argc, argv, options, code)) return code;
  std::string error;
  bool eal_started = false;
  if (!netswitch::run(options, eal_started, error)) {
    std::fprintf(stderr, "uroce-switch: %s\n", error.c_str());
    code = 1;
  }
  if (!eal_started) return code;
  park_interrupt_thread();
  rte_eal_cleanup();
  if (!options.eal_given) remove_eal_directory();
  return code;
}
