#include "options.h"

#include <CLI/CLI.hpp>
#include <map>

#include "common/command_line.h"
#include "host/endpoint_options.h"

namespace uroce::perf {
namespace {

const std::map<std::string, WrOpcode> kOperations = {{"write", WrOpcode::kRdmaWrite},
                                                     {"read", WrOpcode::kRdmaRead},
                                                     {"send", WrOpcode::kSend},
                                                     {"fetch_add", WrOpcode::kFetchAdd},
                                                     {"cmp_swap", WrOpcode::kCompareSwap}};

struct Texts {
  std::string addresses;
};

std::string complete(Options& options, const Texts& texts) {
  if (options.listen == !options.peer.empty()) return "give one of --listen and --connect ADDR";
  if (!options.listen && !parse_ip(options.peer)) return "'" + options.peer + "' is not an IP address";
  options.opcode = kOperations.at(options.op_name);
  if (options.atomic()) options.size = 8;
  if (options.latency) options.depth = options.qps = 1;
  // The wire of two programs on one machine needs no addresses.
  const std::string addresses = !texts.addresses.empty() ? texts.addresses
                                : options.listen         ? "198.18.0.1/24"
                                                         : "198.18.0.2/24";
  std::string error;
  if (!parse_addresses(addresses, options.addresses, error)) return error;
  return "";
}

}  // namespace

bool parse_options(int argc, char** argv, Options& options, int& code) {
  CLI::App app("Measures the transport without verbs.\nuroce-perf EAL-ARGUMENTS -- OPTIONS", "uroce-perf");
  Texts texts;
  app.add_flag("--listen", options.listen, "wait for the other side, which says what to measure");
  app.add_option("--connect", options.peer, "RoCE address of the side that listens");
  app.add_option("--op", options.op_name, "write (the default), read, send, fetch_add, cmp_swap")
      ->check(CLI::IsMember(kOperations));
  app.add_option("--size", options.size, "bytes of a message")->check(CLI::Range(1u, 1u << 30));
  app.add_option("--iters", options.iterations, "messages in all")->check(CLI::PositiveNumber);
  app.add_option("--depth", options.depth, "messages under way on each queue pair")->check(CLI::Range(1u, 4096u));
  app.add_option("--qps", options.qps, "queue pairs")->check(CLI::Range(1u, 1024u));
  app.add_flag("--latency", options.latency, "one message at a time: from post to completion, with percentiles");
  app.add_option("--addr", texts.addresses, "own address, IP/PREFIX[@VLAN]");
  app.add_option("--port", options.port, "DPDK port, by name or number; default: the first");
  app.add_option("--rdma-port", options.rdma_port, "port of connection management at which both sides meet")
      ->check(CLI::Range(1, 65535));
  return apps::parse_command_line(
      app, argc, argv, [&] { return complete(options, texts); }, code);
}

}  // namespace uroce::perf
