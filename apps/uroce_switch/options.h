// What the user of uroce-switch asked for.
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

/// "--impair 2:in:TEXT". Without a direction: out, so that a frame between two ports passes it once.
struct ImpairOption {
  std::optional<unsigned> port;
  bool in = false;
  std::string text;  // parse_impairments takes it
};

struct Options {
  std::string name = kDefaultSwitchName;
  std::optional<unsigned> ports;   // shared memory ports
  std::vector<std::string> specs;  // of further ports
  std::vector<RateOption> rates;
  std::vector<ImpairOption> impairments;
  std::optional<fabric::EcnConfig> ecn;  // per_bits_per_second as a user means it: 0 for absolute thresholds
  uint8_t lossless = 0;                  // priorities, as bits
  uint64_t buffer_bytes = 0;             // 0: enough for the ports
  uint32_t frames = 4096;                // queued at most; as many may be delayed
  uint64_t seed = 1;
  std::string pcap_file;
  unsigned stats_s = 0;  // 0: only at the end
  bool busy = false;
  bool eal_given = false;                  // EAL's arguments came before "--"
  std::vector<std::string> eal_arguments;  // argv[0] too
};

/// False: the program ends here, with `code`; what there was to say has been printed.
bool parse_options(int argc, char** argv, Options& options, int& code);

/// "1G", "2.5G", "500M", "9600": bits a second. Nothing when it is no number above 0.
std::optional<uint64_t> parse_rate(const std::string& text);
/// "100K", "1.5M", "4096": bytes.
std::optional<uint64_t> parse_bytes(const std::string& text);
/// "[PORT:][in:|out:]" in front of `text`, which is left with what stands behind.
void take_target(std::string& text, std::optional<unsigned>& port, std::optional<bool>& in);
/// Each: empty, or what is wrong.
std::string parse_rate_option(const std::string& text, RateOption& rate);
std::string parse_impair_option(const std::string& text, ImpairOption& impair);
std::string parse_ecn(const std::string& text, std::optional<fabric::EcnConfig>& ecn);
std::string parse_priorities(const std::string& text, uint8_t& mask);

/// With `port_count` known: is there a --rate or --impair for a port that is not there? Empty, or what is wrong.
std::string check_targets(const Options& options, size_t port_count);

}  // namespace uroce::netswitch
