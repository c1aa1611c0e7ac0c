// EndpointConfig from the environment: what `uroce run` sets for the program that it starts.
#include <charconv>
#include <cstdlib>
#include <sstream>

#include "congestion/parameters.h"
#include "dpdk/endpoint.h"
#include "dpdk/endpoint_options.h"
#include "dpdk/log.h"
#include "dpdk/port_spec.h"

namespace uroce {

bool parse_progress(const std::string& text, Progress& progress) {
  if (text == "auto") return progress = Progress::kAuto, true;
  if (text == "inline") return progress = Progress::kInline, true;
  if (text == "thread") return progress = Progress::kThread, true;
  return false;
}

bool parse_hugepages(const std::string& text, Hugepages& hugepages) {
  if (text == "auto") return hugepages = Hugepages::kAuto, true;
  if (text == "yes") return hugepages = Hugepages::kYes, true;
  if (text == "no") return hugepages = Hugepages::kNo, true;
  return false;
}

bool parse_log_level(const std::string& text, LogLevel& level) {
  constexpr const char* kNames[] = {"error", "warning", "info", "debug"};
  for (unsigned i = 0; i < 4; i++) {
    if (text == kNames[i]) {
      level = static_cast<LogLevel>(i);
      return true;
    }
  }
  return false;
}

bool parse_mtu(const std::string& text, uint32_t& mtu) {
  uint32_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < kMtuMin || value > kMtuMax) return false;
  mtu = value;
  return true;
}

std::vector<std::string> split_words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool parse_addresses(const std::string& text, std::vector<LocalAddress>& addresses, std::string& error) {
  std::string spaced = text;
  for (char& c : spaced) {
    if (c == ',') c = ' ';
  }
  for (const std::string& word : split_words(spaced)) {
    const auto address = parse_local_address(word);
    if (!address) {
      error = "address '" + word + "' is not IP/PREFIX or IP/PREFIX@VLAN, for example 10.0.0.1/24 or fd00::1/64@100";
      return false;
    }
    addresses.push_back(*address);
  }
  return true;
}

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool endpoint_config_from_environment(EndpointConfig& config, std::string& error) {
  config.port = environment("UROCE_PORT");
  if (!parse_port_spec(config.port, error)) return false;
  if (!parse_addresses(environment("UROCE_ADDR"), config.addresses, error)) return false;
  config.eal_args = split_words(environment("UROCE_EAL"));
  config.pcap_file = environment("UROCE_PCAP");
  if (const std::string text = environment("UROCE_PROGRESS"); !text.empty() && !parse_progress(text, config.progress)) {
    error = "UROCE_PROGRESS is '" + text + "': it is auto, inline or thread";
    return false;
  }
  if (const std::string text = environment("UROCE_HUGEPAGES");
      !text.empty() && !parse_hugepages(text, config.hugepages)) {
    error = "UROCE_HUGEPAGES is '" + text + "': it is auto, yes or no";
    return false;
  }
  if (const std::string text = environment("UROCE_MTU"); !text.empty() && !parse_mtu(text, config.mtu)) {
    error = "UROCE_MTU is '" + text + "': it is a number from " + std::to_string(kMtuMin) + " to " +
            std::to_string(kMtuMax);
    return false;
  }
  if (const std::string text = environment("UROCE_CC");
      !text.empty() && !parse_congestion_algorithm(text, config.congestion.algorithm)) {
    error = "UROCE_CC is '" + text + "': it is none, dcqcn, timely or swift";
    return false;
  }
  for (const std::string& assignment : split_words(environment("UROCE_CC_PARAM"))) {
    if (!set_congestion_parameter(config.congestion, assignment, error)) {
      error = "UROCE_CC_PARAM: " + error;
      return false;
    }
  }
  return true;
}

}  // namespace uroce
