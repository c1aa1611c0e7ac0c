// The options of uroce-switch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fabric/impairments.h"
#include "fabric/switch_config.h"
#include "host/port_spec.h"
#include "uroce/time.h"

namespace uroce::netswitch {

/// "--rate 1G" is for every port, "--rate 2:1G" for one.
struct RateOption {
  std::optional<unsigned> port;
  uint64_t bits_per_second = 0;
};

/// "--impair 2:in:TEXT". Without a direction it is `out`, so that a frame between two ports passes through it once.
struct ImpairOption {
  std::optional<unsigned> port;
  bool in = false;
  std::string text;  // for parse_impairments
};

struct Options {
  std::string name = kDefaultSwitchName;
  std::optional<unsigned> ports;   // shared memory ports
  std::vector<std::string> specs;  // further ports
  std::vector<RateOption> rates;
  std::vector<ImpairOption> impairments;
  std::optional<fabric::EcnConfig> ecn;  // with per_bits_per_second 0 when the user gave absolute thresholds
  uint8_t lossless = 0;                  // priorities, as bits
  uint64_t buffer_bytes = 0;             // 0: enough for the ports
  uint32_t frames = 4096;                // most frames queued; as many more may be delayed
  uint64_t seed = 1;
  std::string pcap_file;
  unsigned stats_s = 0;  // 0: only at the end
  bool busy = false;
  bool eal_given = false;                  // EAL's arguments came before "--"
  std::vector<std::string> eal_arguments;  // argv[0] too
};

/// False when the program ends here, with `code`; help or an error message has been printed.
bool parse_options(int argc, char** argv, Options& options, int& code);

/// Reads "[PORT:][in:|out:]" at the front of `text`, and removes it from there.
void take_target(std::string& text, std::optional<unsigned>& port, std::optional<bool>& in);
/// These return an empty string, or what is wrong.
std::string parse_rate_option(const std::string& text, RateOption& rate);
std::string parse_impair_option(const std::string& text, ImpairOption& impair);
std::string parse_priorities(const std::string& text, uint8_t& mask);

/// How fast frames may leave towards a port: the last rate that was given for it or for all ports; 0: none was.
uint64_t rate_of(const Options& options, size_t port);

/// Checks, when the number of ports is known, that no --rate or --impair is for a port that does not exist. Returns an
/// empty string, or what is wrong.
std::string check_targets(const Options& options, size_t port_count);

}  // namespace uroce::netswitch
