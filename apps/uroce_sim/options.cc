#include "options.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "common/command_line.h"
#include "congestion/algorithms.h"
#include "congestion/parameters.h"
#include "sim/topology.h"
#include "sim/workload.h"

namespace uroce::simulate {
namespace {

CLI::Option* add_duration(CLI::App& app, const char* name, Duration& value, const char* what) {
  return app.add_option_function<std::string>(
      name,
      [&value, name](const std::string& text) {
        if (!sim::parse_duration(text, value)) throw CLI::ValidationError(name, "'" + text + "' is not a time");
      },
      what);
}

CLI::Option* add_bytes(CLI::App& app, const char* name, uint64_t& value, const char* what, uint64_t least = 0) {
  return app.add_option_function<std::string>(
      name,
      [&value, name, least](const std::string& text) {
        if (!sim::parse_bytes(text, value)) throw CLI::ValidationError(name, "'" + text + "' is not a number of bytes");
        if (value < least || value > UINT32_MAX) {
          throw CLI::ValidationError(name, "'" + text + "' is not between " + std::to_string(least) + " and 4 GiB");
        }
      },
      what);
}

CLI::Option* add_rate(CLI::App& app, const char* name, uint64_t& value, const char* what) {
  return app.add_option_function<std::string>(
      name,
      [&value, name](const std::string& text) {
        if (!sim::parse_rate(text, value)) throw CLI::ValidationError(name, "'" + text + "' is no rate");
        if (value < sim::kRateMin) throw CLI::ValidationError(name, "'" + text + "' is less than 1k");
      },
      what);
}

void add_switch(CLI::App& app, const char* name, bool& value, const char* what) {
  app.add_option_function<std::string>(
         name, [&value](const std::string& text) { value = text == "on"; }, what)
      ->check(CLI::IsMember({"on", "off"}));
}

void add_network(CLI::App& app, Options& options) {
  const char* const kGroup = "The network";
  app.add_option("--topology", options.topology, "a built-in one, see below")->group(kGroup);
  app.add_option("--topology-file", options.topology_file, "instead: host, switch, link and flow lines")->group(kGroup);
  add_rate(app, "--host-rate", options.host_rate, "of a host's cable (100G)")->group(kGroup);
  add_rate(app, "--core-rate", options.core_rate, "between switches (as the hosts'; hpcc: four times)")->group(kGroup);
  add_duration(app, "--delay", options.delay, "of every cable, one way (1us)")->group(kGroup);
  add_switch(app, "--pfc", options.pfc, "switches pause before they drop: on (the default), off");
  add_switch(app, "--ecn", options.ecn, "switches mark: on (the default), off");
  add_bytes(app, "--kmin", options.kmin, "ECN: no mark below, per 25 Gb/s of the port (100k)")->group(kGroup);
  add_bytes(app, "--kmax", options.kmax, "ECN: every packet above, per 25 Gb/s of the port (400k)")->group(kGroup);
  app.add_option("--pmax", options.pmax, "ECN: probability at kmax (0.2)")->group(kGroup)->check(CLI::Range(0.0, 1.0));
  add_bytes(app, "--buffer", options.buffer, "of a switch (32M)")->group(kGroup);
  app.add_option("--alpha", options.alpha, "PFC: dynamic threshold (0.125)")->group(kGroup)->check(CLI::PositiveNumber);
  add_duration(app, "--watchdog", options.watchdog, "switches drop what a pause holds back for longer (never)")
      ->group(kGroup);
  add_duration(app, "--host-watchdog", options.host_watchdog, "engines with --nic-pfc engine ignore it (200ms)")
      ->group(kGroup);
  add_duration(app, "--watchdog-restore", options.watchdog_restore, "and obey pauses again after (200ms)")
      ->group(kGroup);
  app.add_option("--faults", options.faults, "of every cable, such as 'loss 1%; jitter 3us'")->group(kGroup);
  app.add_option("--fault", options.cable_faults,
                 "of one cable: NODE_NODE=FAULTS, or NODE>NODE=FAULTS in one direction; several times")
      ->group(kGroup);
}

void add_hosts(CLI::App& app, Options& options) {
  const char* const kGroup = "The hosts";
  app.add_option("--workload", options.workload, "what they do, see below")->group(kGroup);
  std::vector<std::string> algorithms;
  for (const CongestionAlgorithmRow& row : congestion_algorithms()) algorithms.emplace_back(row.name);
  app.add_option("--cc", options.cc, "congestion control, none by default: " + congestion_algorithm_names())
      ->group(kGroup)
      ->check(CLI::IsMember(algorithms));
  app.add_option("--set", options.cc_settings, "of congestion control: NAME=VALUE, also profile=hpcc; several times")
      ->group(kGroup);
  app.add_option("--mtu", options.mtu, "RoCE MTU (1024)")
      ->group(kGroup)
      ->check(CLI::IsMember({256, 512, 1024, 2048, 4096}));
  app.add_option("--loss-recovery", options.loss_recovery,
                 "go-back-n (the default), auto (selective repeat once peers know each other), selective (at once)")
      ->group(kGroup)
      ->check(CLI::IsMember({"go-back-n", "auto", "selective"}));
  app.add_option("--window", options.window, "packets in flight of a queue pair (what the longest way holds)")
      ->group(kGroup)
      ->check(CLI::Range(1u, 1u << 20));
  add_bytes(app, "--piece", options.piece, "of a work request (1Mi)", 1)->group(kGroup);
  app.add_option("--dscp", options.dscp, "of packets; the priority is an eighth of it (26)")
      ->group(kGroup)
      ->check(CLI::Range(0u, 63u));
  app.add_option("--timeout", options.timeout, "ACK timeout, 4.096 us * 2^N (14)")
      ->group(kGroup)
      ->check(CLI::Range(0u, 31u));
  app.add_option("--retry", options.retry, "retries (7)")->group(kGroup)->check(CLI::Range(0u, 7u));
  add_duration(app, "--ack-delay", options.ack_delay, "how long an ACK may wait for company (0ns)")->group(kGroup);
  app.add_option("--ack-every", options.ack_every, "packets of a message without a request for an ACK, at most (32)")
      ->group(kGroup)
      ->check(CLI::Range(1u, 1u << 20));
  app.add_option("--ack-dscp", options.ack_dscp, "of ACKs, set by the NIC (that of data)")
      ->group(kGroup)
      ->check(CLI::Range(0, 63));
  add_duration(app, "--turn-delay", options.turn_delay, "from a frame's arrival until the engine runs (0ns)")
      ->group(kGroup);
  app.add_option("--slow", options.slow_hosts, "HOST=TIME: another --turn-delay of one host; several times")
      ->group(kGroup);
  app.add_option("--nic-frames", options.nic_frames, "in a NIC's send queue (4)")
      ->group(kGroup)
      ->check(CLI::Range(1u, 4096u));
  app.add_option("--nic-rx-frames", options.nic_rx_frames, "in a NIC's receive queue; more are lost (no limit)")
      ->group(kGroup)
      ->check(CLI::Range(1u, 1u << 20));
  app.add_option("--nic-pfc", options.nic_pfc,
                 "with --pfc on, who obeys pauses and sends them when frames pile up: hardware, the NIC (the default); "
                 "engine, as on ports that cannot; none")
      ->group(kGroup)
      ->check(CLI::IsMember({"hardware", "engine", "none"}));
}

void add_run(CLI::App& app, Options& options) {
  const char* const kGroup = "The run";
  add_duration(app, "--duration", options.duration, "of the workload, in virtual time (1ms)")->group(kGroup);
  add_duration(app, "--drain", options.drain, "for flows that have not ended then, at most (1s)")->group(kGroup);
  app.add_option("--seed", options.seed, "the same seed is the same run (1)")->group(kGroup);
  app.add_option("--csv", options.csv_dir, "directory for flows.csv, queues.csv, rates.csv, samples.csv, cables.csv")
      ->group(kGroup);
  add_duration(app, "--sample", options.sample,
               "how often to look at the queues (a thousandth of the duration); rates: every tenth time")
      ->group(kGroup);
  app.add_option("--pcapng", options.pcapng_dir, "directory for a capture of every cable, as seen at its first end")
      ->group(kGroup);
  app.add_option("--capture", options.capture_cables, "only of these cables: NODE_NODE")->group(kGroup);
  app.add_flag("--pauses", options.pauses, "print which cables were paused, and for how long")->group(kGroup);
  app.add_flag("--hash", options.hash_only, "print the hash of the run and nothing else")->group(kGroup);
}

void add_connect(CLI::App& app, ConnectOptions& options) {
  CLI::App* const connect = app.add_subcommand("connect", "connection management: many connections, and their end");
  connect->add_option("--count", options.count, "connections (10000)")->check(CLI::Range(1u, 50'000u));
  connect->add_option("--per-second", options.per_second, "begun in a second (as fast as datagrams leave)");
  connect->add_option("--faults", options.faults, "on the cable, such as 'loss 1%; duplicate 1%'");
  add_rate(*connect, "--host-rate", options.rate, "of the cable (100G)");
  add_duration(*connect, "--delay", options.delay, "of the cable, one way (1us)");
  add_duration(*connect, "--hold", options.hold, "how long they stand (0ns)");
  connect->add_option("--seed", options.seed, "the same seed is the same run (1)");
  connect->add_flag("--hash", options.hash_only, "print the hash of the run and nothing else");
}

}  // namespace

bool parse_options(int argc, char** argv, Command& command, AllOptions& all, int& code) {
  Options& options = all.run;
  CLI::App app("Runs the RoCE engine in a simulated network.", "uroce-sim");
  app.footer("Topologies:\n" + sim::topology_help() + "Workloads:\n" + sim::workload_help() +
             "Parameters of congestion control: " + congestion_parameter_names() + "\n" +
             "Times are 500ns, 10us, 1ms, 2s; rates 40G, 100G; bytes 4096, 64k, 1M, 64Ki, 1Mi.\n"
             "Example: uroce-sim --topology fat-tree:4 --workload poisson:websearch:0.3 --duration 5ms --csv out");
  apps::add_version_flag(app);
  add_network(app, options);
  add_hosts(app, options);
  add_run(app, options);
  app.add_subcommand("run", "what happens without a command")->fallthrough();
  add_connect(app, all.connect);
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    code = app.exit(help);
    return false;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "uroce-sim: %s\n", error.what());
    code = 2;
    return false;
  }
  command = app.got_subcommand("connect") ? Command::kConnect : Command::kRun;
  return true;
}

}  // namespace uroce::simulate
