#include "options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "common/command_line.h"
#include "fabric/quantities.h"
#include "host/wire_end.h"

namespace uroce::netswitch {

using fabric::parse_bytes;
using fabric::parse_ecn;
using fabric::parse_rate;

namespace {

const char kFooter[] =
    "Ports are numbered from 0: those of shared memory (--ports), which programs plug into with\n"
    "`uroce run --port switch:NAME -- PROGRAM`, then those of --port, then what EAL was given.\n"
    "\n"
    "--rate, --impair: for every port, or PORT: in front. --impair has a direction too: `out` (from the switch to\n"
    "the port, when nothing is said) or `in`, as in --impair 2:in:'drop 2nd data'. Its faults:\n"
    "  loss 1% | burst-loss to-bad=0.1% to-good=30% | corrupt 1e-4 | duplicate 1% | reorder 5% within 50us | jitter "
    "3us\n"
    "  down from 1s for 200ms every 5s | pause-storm prio=3 from 1s for 5ms | active from 1s for 10s\n"
    "  drop 2nd psn=77 qp=0x12 | delay 3-5 read-response by 50us | corrupt 1st ack | mark every 100 data\n"
    "\n"
    "  uroce-switch --ports 4 --rate 1G --ecn kmin=50K,kmax=200K,pmax=0.1\n"
    "  uroce-switch --ports 2 --port net_af_packet0,iface=veth0 --impair 'loss 1%'\n"
    "  uroce-switch --port shmlan:left --port shmlan:right --rate 1G\n"
    "  uroce-switch -l 1 --vdev=net_tap0 --vdev=net_tap1 -- --busy\n"
    "\n"
    "SIGUSR1 prints the table; SIGINT and SIGTERM print it and end the switch. doc/switch.md has more.";

struct Texts {
  std::vector<std::string> rates, impairments;
  std::string ecn, pfc, buffer;
};

std::string complete(Options& options, const Texts& texts) {
  if (options.name.empty() || !valid_wire_name(options.name)) {
    return "--name '" + options.name + "': 1 to 32 letters, digits, '-', '_' or '.'";
  }
  std::string error;
  for (const std::string& spec : options.specs) {
    const auto parsed = parse_port_spec(spec, error);
    if (!parsed) return error;
    if (parsed->kind == PortKind::kSwitch) return "port '" + spec + "': a switch cannot be plugged into a switch so";
  }
  for (const std::string& text : texts.rates) {
    RateOption rate;
    if (error = parse_rate_option(text, rate); !error.empty()) return "--rate " + text + ": " + error;
    options.rates.push_back(rate);
  }
  for (const std::string& text : texts.impairments) {
    ImpairOption impair;
    if (error = parse_impair_option(text, impair); !error.empty()) return "--impair '" + text + "': " + error;
    options.impairments.push_back(impair);
  }
  if (!texts.ecn.empty()) {
    if (error = parse_ecn(texts.ecn, options.ecn); !error.empty()) return "--ecn " + texts.ecn + ": " + error;
  }
  if (!texts.pfc.empty()) {
    if (error = parse_priorities(texts.pfc, options.lossless); !error.empty())
      return "--pfc " + texts.pfc + ": " + error;
  }
  if (!texts.buffer.empty()) {
    const auto bytes = parse_bytes(texts.buffer);
    if (!bytes || *bytes == 0) return "--buffer " + texts.buffer + ": a number of bytes is wanted, such as 512K or 16M";
    options.buffer_bytes = *bytes;
  }
  // Without any ports given it has four of shared memory; otherwise it has those that were given.
  if (!options.ports) options.ports = options.specs.empty() && !options.eal_given ? 4 : 0;
  if (options.eal_given) return "";
  const size_t count = *options.ports + options.specs.size();
  if (count < 2) return "a switch of one port leads nowhere: say --ports, or more --port";
  return check_targets(options, count);
}

void add_options(CLI::App& app, Options& options, Texts& texts) {
  app.add_option("--name", options.name, "what programs call it: uroce run --port switch:NAME")->capture_default_str();
  app.add_option("--ports", options.ports, "ports of shared memory; 4, or 0 when others are given")
      ->check(CLI::Range(0u, SwitchSign::kMaxPorts));
  app.add_option("--port", options.specs, "one port more, as for `uroce run`: net_af_packet0,iface=veth0; repeatable")
      ->type_name("PORT")
      ->take_all()
      ->expected(1);
  app.add_option("--rate", texts.rates, "how fast frames leave, bits a second: 1G, 2:500M; repeatable")
      ->type_name("[PORT:]RATE")
      ->take_all()
      ->expected(1);
  app.add_option("--ecn", texts.ecn,
                 "mark congestion: kmin=BYTES,kmax=BYTES,pmax=0..1 of the queue, or `on` (100K, 400K, 0.2 for each "
                 "25 Gbit/s of rate)");
  app.add_option("--pfc", texts.pfc, "priorities whose senders are paused instead of losing frames: 3, or 3,4");
  app.add_option("--impair", texts.impairments, "what goes wrong, see below; repeatable")
      ->type_name("[PORT:][in:|out:]FAULTS")
      ->take_all()
      ->expected(1);
  app.add_option("--buffer", texts.buffer, "bytes that all queues share; 16M, and what --pfc needs");
  app.add_option("--frames", options.frames, "frames that all queues hold, and that may be delayed")
      ->check(CLI::Range(64u, 1u << 20))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "another number: other frames are hit")->capture_default_str();
  app.add_option("--pcapng", options.pcap_file, "write what comes in and goes out to FILE, an interface for each port");
  app.add_option("--stats", options.stats_s, "print the table every SECONDS")->check(CLI::Range(1u, 86400u));
  app.add_flag("--busy", options.busy, "never sleep and never give the processor to others");
}

}  // namespace

void take_target(std::string& text, std::optional<unsigned>& port, std::optional<bool>& in) {
  while (true) {
    const size_t colon = text.find(':');
    if (colon == std::string::npos) return;
    const std::string word = text.substr(0, colon);
    unsigned number = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (!word.empty() && code == std::errc() && end == word.data() + word.size() && !port) {
      port = number;
    } else if ((word == "in" || word == "out") && !in) {
      in = word == "in";
    } else {
      return;
    }
    text.erase(0, colon + 1);
  }
}

std::string parse_rate_option(const std::string& text, RateOption& rate) {
  std::string rest = text;
  std::optional<bool> in;
  take_target(rest, rate.port, in);
  if (in) return "the rate is that of frames that leave: PORT:RATE";
  const auto value = parse_rate(rest);
  if (!value) return "bits a second are wanted, such as 10G, 2.5G or 500M, at least 1K";
  rate.bits_per_second = *value;
  return "";
}

std::string parse_impair_option(const std::string& text, ImpairOption& impair) {
  std::string rest = text;
  std::optional<bool> in;
  take_target(rest, impair.port, in);
  impair.in = in.value_or(false);
  fabric::ImpairmentConfig config;
  if (std::string error = fabric::parse_impairments(rest, config); !error.empty()) return error;
  impair.text = rest;
  return config.empty() ? "no fault is named" : "";
}

std::string parse_priorities(const std::string& text, uint8_t& mask) {
  mask = 0;
  for (size_t i = 0; i < text.size(); i += 2) {
    const bool good = text[i] >= '0' && text[i] <= '7' && (i + 1 == text.size() || text[i + 1] == ',');
    if (!good || i + 2 == text.size()) return "priorities are numbers from 0 to 7, such as 3 or 3,4";
    mask = static_cast<uint8_t>(mask | priority_bit(static_cast<unsigned>(text[i] - '0')));
  }
  return "";
}

uint64_t rate_of(const Options& options, size_t port) {
  uint64_t rate = 0;
  for (const RateOption& option : options.rates) {
    if (!option.port || *option.port == port) rate = option.bits_per_second;
  }
  return rate;
}

std::string check_targets(const Options& options, size_t port_count) {
  const auto missing = [port_count](const std::optional<unsigned>& port, const char* option) -> std::string {
    if (!port || *port < port_count) return "";
    return std::string(option) + " for port " + std::to_string(*port) + ": the last of " + std::to_string(port_count) +
           " is " + std::to_string(port_count - 1);
  };
  for (const RateOption& rate : options.rates) {
    if (std::string error = missing(rate.port, "--rate"); !error.empty()) return error;
  }
  for (const ImpairOption& impair : options.impairments) {
    if (std::string error = missing(impair.port, "--impair"); !error.empty()) return error;
  }
  return "";
}

bool parse_options(int argc, char** argv, Options& options, int& code) {
  char** const separator =
      std::find_if(argv, argv + argc, [](const char* word) { return std::strcmp(word, "--") == 0; });
  options.eal_given = separator != argv + argc;
  char** const own = options.eal_given ? separator : argv;
  if (options.eal_given) options.eal_arguments.assign(argv, separator);
  CLI::App app(
      "An Ethernet switch in real time between DPDK ports: learning, ECN, PFC, bandwidth caps, and faults.\n"
      "uroce-switch OPTIONS, or uroce-switch EAL-ARGUMENTS -- OPTIONS",
      "uroce-switch");
  app.footer(kFooter);
  apps::add_version_flag(app);
  Texts texts;
  add_options(app, options, texts);
  const auto refuse = [&code](const std::string& why) {
    std::fprintf(stderr, "uroce-switch: %s; see uroce-switch --help\n", why.c_str());
    code = 2;
    return false;
  };
  try {
    app.parse(static_cast<int>(argv + argc - own), own);
  } catch (const CLI::Success& help) {
    code = app.exit(help);
    return false;
  } catch (const CLI::ParseError& error) {
    return refuse(error.what());
  }
  if (const std::string error = complete(options, texts); !error.empty()) return refuse(error);
  return true;
}

}  // namespace uroce::netswitch
