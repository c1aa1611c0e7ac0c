#include "options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>

#include "common/command_line.h"
#include "fabric/quantities.h"
#include "host/endpoint_options.h"
#include "host/port_spec.h"
#include "segment/layout.h"
#include "segment/member_record.h"

namespace uroce::daemon {
namespace {

struct Texts {
  std::string port, rate, memory;
  std::vector<std::string> addresses;
};

constexpr uint64_t kBaseBytes = sizeof(segment::BaseMemory);
constexpr uint64_t kLaneBytes = sizeof(segment::LaneMemory);

/// The memory that a program may set aside, in lanes: what is left of it beside what the program needs for itself.
bool parse_memory(const std::string& text, uint32_t& lanes) {
  const auto bytes = fabric::parse_bytes(text);
  if (!bytes || *bytes < kBaseBytes + kLaneBytes) return false;
  lanes = static_cast<uint32_t>(std::min<uint64_t>((*bytes - kBaseBytes) / kLaneBytes, UINT32_MAX));
  return true;
}

std::string complete(Options& options, const Texts& texts) {
  EndpointConfig& config = options.config;
  UplinkConfig& uplink = *config.uplink;
  std::string error;
  if (!config.faults.empty())
    return "UROCE_FAULTS is for the engine of a program: uroce run --faults, or a uroce-switch on the wire";
  config.port = texts.port;
  config.eal_running = !options.eal_arguments.empty();
  if (!config.eal_running) {
    if (texts.port.empty()) return "which port? --port net_af_packet0,iface=eth0, or EAL's arguments before --";
    const auto spec = parse_port_spec(texts.port, error);
    if (!spec) return error;
    if (spec->kind == PortKind::kSegment) return "an uplink leads out of a segment; '" + texts.port + "' is one";
  }
  for (const std::string& text : texts.addresses) {
    if (!parse_addresses(text, config.addresses, error)) return error;
  }
  if (!texts.rate.empty()) {
    const auto rate = fabric::parse_rate(texts.rate);
    if (!rate) return "--rate " + texts.rate + ": bits per second are wanted, such as 500M or 10G";
    uplink.rate = *rate;
  }
  if (!texts.memory.empty() && !parse_memory(texts.memory, uplink.lanes_max)) {
    return "--max-memory " + texts.memory + ": bytes are wanted, 5M or more: " + std::to_string(kBaseBytes / 1000) +
           "K for frames, and " + std::to_string(kLaneBytes / 1000) + "K for each other program";
  }
  if (uplink.while_needed && uplink.host.empty())
    return "--while-needed is for the uroced that programs with --port network start, and needs their --host";
  if (!uplink.host.empty() && !segment::valid_host_name(uplink.host))
    return "host '" + uplink.host + "': the name of a host is 1 to 32 letters, digits, '-', '_', '.' or '@'";
  return "";
}

}  // namespace

bool parse_options(int argc, char** argv, Options& options, int& code) {
  CLI::App app(
      "The programs of this machine share one DPDK port, with its MAC and one address.\n"
      "uroced EAL-ARGUMENTS -- OPTIONS, or uroced --port PORT OPTIONS",
      "uroced");
  options.config.uplink.emplace();
  UplinkConfig& uplink = *options.config.uplink;
  Texts texts;
  app.add_option("--port", texts.port, "as uroce run has it; behind EAL's arguments a name or number, or the first");
  app.add_option("--addr", texts.addresses, "IP/PREFIX[@VLAN], repeatable; default: those of the kernel's interface");
  app.add_option("--segment", uplink.segment, "which one programs find it on: uroce run --port shmlan:NAME");
  app.add_option("--host", uplink.host, "what the programs that share the port are called");
  app.add_option("--group", uplink.group, "users of this group may share it; else only programs of this user");
  app.add_option("--max-qps", uplink.qps_max, "queue pairs that a program may have")
      ->check(CLI::Range(1u, kMaxQpsMost));
  app.add_option("--max-memory", texts.memory, "bytes of shared memory that a program may set aside, such as 10M");
  app.add_option("--rate", texts.rate, "bits per second that a program may send to the wire, such as 10G");
  app.add_option("--metrics", options.metrics, "ADDRESS:PORT on which to serve counters to Prometheus");
  app.add_flag("--while-needed", uplink.while_needed,
               "as programs with --port network start it: end when none has needed it for 5 seconds");
  app.add_flag("--busy", options.busy, "never sleep, also when nothing happens");
  char** const separator =
      std::find_if(argv, argv + argc, [](const char* word) { return std::strcmp(word, "--") == 0; });
  const bool eal = separator != argv + argc;
  if (eal) options.eal_arguments.assign(argv, separator);
  char** const own = eal ? separator : argv;
  return apps::parse_command_line(
      app, static_cast<int>(argv + argc - own), own, [&] { return complete(options, texts); }, code);
}

}  // namespace uroce::daemon
