#include "options.h"

#include <CLI/CLI.hpp>
#include <map>

#include "common/command_line.h"
#include "pmd/card/wires/make_wire.h"

namespace mqnic::card {
namespace {

const char kFooter[] =
    "Wires, one --wire for each port, interface by interface:\n"
    "  none            nothing is plugged in (the default)\n"
    "  loop            a plug that joins what the port sends to what it receives\n"
    "  shm:NAME        a cable to whoever else uses shm:NAME on this machine\n"
    "  tap:IFNAME      a TAP interface of the kernel (needs CAP_NET_ADMIN)\n"
    "  pcap:IN[:OUT]   plays the file IN once the port receives, records to OUT; pcap::OUT only records\n"
    "\n"
    "Two cards joined by a cable:\n"
    "  mqnic-card --socket /run/card0.sock --wire shm:cable &\n"
    "  mqnic-card --socket /run/card1.sock --wire shm:cable --loss 0.1% &\n"
    "  dpdk-testpmd -d librte_net_mqnic.so --no-pci --vdev=net_mqnic0,card=vfio-user,socket=/run/card0.sock -- -i\n"
    "\n"
    "SIGUSR1 prints what the card has seen so far; SIGINT and SIGTERM end it.";

void add_knobs(CLI::App& app, std::map<std::string, std::string>& values) {
  const std::map<std::string, const char*> help = {
      {"bandwidth", "bits a second: 10G, 500M"},
      {"delay", "of the cable: 20us"},
      {"loss", "chance that a frame is lost: 0.01, 1%"},
      {"corrupt", "chance that one bit of a frame is wrong"},
      {"duplicate", "chance that a frame comes twice"},
      {"reorder", "chance that a frame goes after the one that follows it"},
      {"pause", "pause frames to the card, QUANTA@INTERVAL: 65535@1ms"},
      {"seed", "another number: other frames are hit"},
  };
  for (const char* name : kWireKnobNames) {
    app.add_option("--" + std::string(name), values[name], help.at(name))->group("What the cables do to frames sent");
  }
}

std::string complete(Options& options, const std::map<std::string, std::string>& knobs, unsigned queues) {
  std::string error;
  for (const auto& [name, value] : knobs) {
    if (!value.empty() && !set_wire_knob(options.knobs, name, value, error)) return "--" + error;
  }
  CardConfig& card = options.card;
  const size_t ports = size_t{card.interfaces} * card.ports_per_interface;
  if (options.wires.size() > ports) {
    return std::to_string(options.wires.size()) + " wires for " + std::to_string(ports) +
           (ports == 1 ? " port" : " ports") + ": say --ports or --interfaces, or leave some out";
  }
  options.wires.resize(ports, "none");
  card.tx_queues = card.rx_queues = queues;
  card.completion_queues = 2 * queues;
  return "";
}

}  // namespace

bool parse_options(int argc, char** argv, Options& options, int& code) {
  CLI::App app(
      "A model of the mqnic FPGA card in a process of its own, for drivers and virtual machines that speak\n"
      "vfio-user.",
      "mqnic-card");
  app.footer(kFooter);
  std::map<std::string, std::string> knobs;
  unsigned queues = options.card.tx_queues;
  app.add_option("--socket", options.socket, "where clients find the card")->type_name("PATH")->required();
  app.add_option("--wire", options.wires, "what is plugged into a port, see below")
      ->type_name("TEXT")
      ->take_all()
      ->expected(1);
  app.add_option("--interfaces", options.card.interfaces, "interfaces of the card")
      ->check(CLI::Range(1u, 8u))
      ->capture_default_str();
  app.add_option("--ports", options.card.ports_per_interface, "ports of an interface")
      ->check(CLI::Range(1u, 8u))
      ->capture_default_str();
  app.add_option("--queues", queues, "TX queues, and RX queues, of an interface")
      ->check(CLI::Range(1u, 4096u))
      ->capture_default_str();
  add_knobs(app, knobs);
  return uroce::apps::parse_command_line(
      app, argc, argv, [&] { return complete(options, knobs, queues); }, code);
}

}  // namespace mqnic::card
