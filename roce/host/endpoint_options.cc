// Reads an EndpointConfig from the environment, which `uroce run` sets for the program that it starts.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <sstream>

#include "congestion/algorithms.h"
#include "congestion/parameters.h"
#include "host/endpoint_options.h"
#include "host/port_spec.h"

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

bool parse_direct_copy(const std::string& text, DirectCopying& copying) {
  if (text == "auto") return copying = DirectCopying::kAuto, true;
  if (text == "off") return copying = DirectCopying::kOff, true;
  return false;
}

bool parse_loss_recovery(const std::string& text, LossRecovery& recovery) {
  if (text == "auto") return recovery = LossRecovery::kAuto, true;
  if (text == "go-back-n") return recovery = LossRecovery::kGoBackN, true;
  if (text == "selective") return recovery = LossRecovery::kSelective, true;
  return false;
}

namespace {

bool parse_within(const std::string& text, uint32_t least, uint32_t most, uint32_t& result) {
  uint32_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < least || value > most) return false;
  result = value;
  return true;
}

}  // namespace

bool parse_mtu(const std::string& text, uint32_t& mtu) { return parse_within(text, kMtuMin, kMtuMax, mtu); }

bool parse_max_qps(const std::string& text, uint32_t& max_qps) { return parse_within(text, 1, kMaxQpsMost, max_qps); }

bool parse_faults(const std::string& text, fabric::LinkFaults& faults, std::string& error) {
  if (text.empty()) return true;
  const std::string why = fabric::parse_link_faults(text, faults);
  if (why.empty()) return true;
  error = "faults '" + text + "': " + why + "; for example 'loss 1%; delay all by 50us; rate 1G', see doc/segment.md";
  return false;
}

std::vector<std::string> split_words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

namespace {

/// Splits at commas and blanks.
std::vector<std::string> split_list(std::string text) {
  std::replace(text.begin(), text.end(), ',', ' ');
  return split_words(text);
}

}  // namespace

bool parse_addresses(const std::string& text, std::vector<LocalAddress>& addresses, std::string& error) {
  for (const std::string& word : split_list(text)) {
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

/// Reads "3" or "3,4" as priorities, one bit for each.
bool parse_priorities(const std::string& text, uint8_t& priorities) {
  for (const std::string& word : split_list(text)) {
    if (word.size() != 1 || word[0] < '0' || word[0] > '7') return false;
    priorities = static_cast<uint8_t>(priorities | 1u << (word[0] - '0'));
  }
  return true;
}

bool parse_traffic_class(const std::string& text, uint8_t& traffic_class) {
  char* end = nullptr;
  const unsigned long value = std::strtoul(text.c_str(), &end, 0);
  if (text.empty() || text[0] == '-' || *end != 0 || value > 255) return false;
  traffic_class = static_cast<uint8_t>(value);
  return true;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool endpoint_config_from_environment(EndpointConfig& config, std::string& error) {
  config.port = environment("UROCE_PORT");
  if (!parse_port_spec(config.port, error)) return false;
  if (!parse_addresses(environment("UROCE_ADDR"), config.addresses, error)) return false;
  config.host = environment("UROCE_HOST");
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
  if (const std::string text = environment("UROCE_LOSS_RECOVERY");
      !text.empty() && !parse_loss_recovery(text, config.loss_recovery)) {
    error = "UROCE_LOSS_RECOVERY is '" + text + "': it is auto, go-back-n or selective";
    return false;
  }
  if (const std::string text = environment("UROCE_DIRECT_COPY");
      !text.empty() && !parse_direct_copy(text, config.direct_copy)) {
    error = "UROCE_DIRECT_COPY is '" + text + "': it is auto or off";
    return false;
  }
  if (const std::string text = environment("UROCE_MTU"); !text.empty() && !parse_mtu(text, config.mtu)) {
    error = "UROCE_MTU is '" + text + "': it is a number from " + std::to_string(kMtuMin) + " to " +
            std::to_string(kMtuMax);
    return false;
  }
  if (const std::string text = environment("UROCE_CC");
      !text.empty() && !parse_congestion_algorithm(text, config.congestion.algorithm)) {
    error = "UROCE_CC is '" + text + "': it is " + congestion_algorithm_names(" or ");
    return false;
  }
  if (const std::string text = environment("UROCE_MAX_QPS"); !text.empty() && !parse_max_qps(text, config.max_qps)) {
    error = "UROCE_MAX_QPS is '" + text + "': it is a number from 1 to " + std::to_string(kMaxQpsMost);
    return false;
  }
  if (const std::string text = environment("UROCE_TCLASS");
      !text.empty() && !parse_traffic_class(text, config.traffic_class)) {
    error = "UROCE_TCLASS is '" + text + "': it is a number from 0 to 255, DSCP * 4";
    return false;
  }
  if (const std::string text = environment("UROCE_PFC"); !parse_priorities(text, config.lossless)) {
    error = "UROCE_PFC is '" + text + "': it is a list of priorities from 0 to 7, such as 3 or 3,4";
    return false;
  }
  if (!parse_faults(environment("UROCE_FAULTS"), config.faults, error)) return false;
  for (const std::string& assignment : split_words(environment("UROCE_CC_PARAM"))) {
    if (!set_congestion_parameter(config.congestion, assignment, error)) {
      error = "UROCE_CC_PARAM: " + error;
      return false;
    }
  }
  return true;
}

}  // namespace uroce
