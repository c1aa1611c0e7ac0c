// The options of uroce-sim.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "connect.h"
#include "uroce/time.h"

namespace uroce::simulate {

struct Options {
  std::string topology = "back-to-back";  // a built-in one
  std::string topology_file;              // used instead, if not ""
  uint64_t host_rate = 100'000'000'000;
  uint64_t core_rate = 0;
  Duration delay = microseconds(1);

  std::string workload = "long";
  Duration duration = milliseconds(1);
  Duration drain = milliseconds(1000);  // how long to wait for flows that have not ended when the workload has
  uint64_t seed = 1;

  std::string cc = "none";
  std::vector<std::string> cc_settings;  // NAME=VALUE
  bool pfc = true;
  bool ecn = true;
  uint64_t kmin = 100'000;  // per 25 Gb/s
  uint64_t kmax = 400'000;
  double pmax = 0.2;
  uint64_t buffer = 32'000'000;
  double alpha = 0.125;
  Duration watchdog{};
  Duration host_watchdog = milliseconds(200);
  Duration watchdog_restore = milliseconds(200);

  uint32_t mtu = 1024;
  std::string loss_recovery = "go-back-n";
  uint64_t piece = 1 << 20;
  uint32_t window = 0;  // packets; 0: as many as fit on the longest path of the network
  uint32_t dscp = 26;
  uint32_t timeout = 14;
  uint32_t retry = 7;
  Duration ack_delay{};
  uint32_t ack_every = 32;
  std::optional<uint8_t> ack_dscp;
  Duration turn_delay{};
  uint32_t nic_frames = 4;
  uint32_t nic_rx_frames = 0;
  std::string nic_pfc = "hardware";
  std::vector<std::string> slow_hosts;  // HOST=TIME

  std::string faults;                     // on every cable
  std::vector<std::string> cable_faults;  // CABLE=FAULTS

  std::string csv_dir;
  std::string pcapng_dir;
  std::vector<std::string> capture_cables;  // empty: all
  Duration sample{};                        // 0: a thousandth of the duration
  bool hash_only = false;
  bool pauses = false;
};

enum class Command { kRun, kConnect };

/// The options of each command.
struct AllOptions {
  Options run;
  ConnectOptions connect;
};

/// False when the program ends with `code`; help or an error message has been printed.
bool parse_options(int argc, char** argv, Command& command, AllOptions& all, int& code);

}  // namespace uroce::simulate
