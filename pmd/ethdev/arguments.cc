#include "pmd/ethdev/arguments.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace mqnic::ethdev {

namespace {

struct Number {
  const char* key;
  uint64_t min, max;
  void (*store)(card::CardConfig&, uint64_t);
};

// The parameters with which the FPGA was built. The card model checks their combination.
constexpr Number kNumbers[] = {
    {"interfaces", 1, 8, [](card::CardConfig& c, uint64_t v) { c.interfaces = static_cast<unsigned>(v); }},
    {"ports", 1, 8, [](card::CardConfig& c, uint64_t v) { c.ports_per_interface = static_cast<unsigned>(v); }},
    {"tx_queues", 1, 8192, [](card::CardConfig& c, uint64_t v) { c.tx_queues = static_cast<unsigned>(v); }},
    {"rx_queues", 1, 256, [](card::CardConfig& c, uint64_t v) { c.rx_queues = static_cast<unsigned>(v); }},
    {"completion_queues", 2, 8192,
     [](card::CardConfig& c, uint64_t v) { c.completion_queues = static_cast<unsigned>(v); }},
    {"event_queues", 1, 64, [](card::CardConfig& c, uint64_t v) { c.event_queues = static_cast<unsigned>(v); }},
    {"interrupts", 1, 2048, [](card::CardConfig& c, uint64_t v) { c.interrupts = static_cast<unsigned>(v); }},
    {"log2_block_max", 0, 3, [](card::CardConfig& c, uint64_t v) { c.log2_block_max = static_cast<unsigned>(v); }},
    {"log2_rss_table", 0, 9, [](card::CardConfig& c, uint64_t v) { c.log2_rss_table = static_cast<unsigned>(v); }},
    {"max_frame", 64, 9214, [](card::CardConfig& c, uint64_t v) { c.max_frame_bytes = static_cast<uint32_t>(v); }},
    {"tx_fifo", 1024, 1u << 24, [](card::CardConfig& c, uint64_t v) { c.tx_fifo_bytes = static_cast<uint32_t>(v); }},
    {"rx_fifo", 1024, 1u << 24, [](card::CardConfig& c, uint64_t v) { c.rx_fifo_bytes = static_cast<uint32_t>(v); }},
    {"ptp", 0, 1, [](card::CardConfig& c, uint64_t v) { c.ptp = v != 0; }},
    {"board_id", 0, 0xffffffff, [](card::CardConfig& c, uint64_t v) { c.board_id = static_cast<uint32_t>(v); }},
};

Failure bad(const Arguments& arguments, const std::string& what) {
  return failure(-EINVAL, "%s: %s", arguments.device.c_str(), what.c_str());
}

/// True when `key` is one of the numbers; if the value is wrong, `why` says how.
bool parse_number(card::CardConfig& config, const std::string& key, const std::string& value, std::string& why) {
  const auto* number =
      std::find_if(std::begin(kNumbers), std::end(kNumbers), [&](const Number& n) { return key == n.key; });
  if (number == std::end(kNumbers)) return false;
  char* end = nullptr;
  errno = 0;
  const uint64_t parsed = value.empty() || value[0] == '-' ? number->max + 1 : std::strtoull(value.c_str(), &end, 0);
  if (errno != 0 || end == nullptr || *end != '\0' || parsed < number->min || parsed > number->max) {
    why = key + "=" + value + ": a number from " + std::to_string(number->min) + " to " + std::to_string(number->max) +
          " is needed";
    return true;
  }
  number->store(config, parsed);
  return true;
}

Failure parse_one(Arguments& out, const std::string& key, const std::string& value) {
  const auto& wire_knobs = card::kWireKnobNames;
  std::string why;
  if (key == "card") {
    out.card = value;
  } else if (key == "socket") {
    out.socket = value;
  } else if (key == "wire") {
    out.wires.push_back(value);
  } else if (key == "mac") {
    rte_ether_addr mac{};
    if (rte_ether_unformat_addr(value.c_str(), &mac) != 0 || !rte_is_valid_assigned_ether_addr(&mac)) {
      return bad(out, "mac=" + value + ": not the address of a station");
    }
    out.mac = mac;
  } else if (std::any_of(wire_knobs.begin(), wire_knobs.end(), [&](const char* knob) { return key == knob; })) {
    if (!card::set_wire_knob(out.knobs, key, value, why)) return bad(out, why);
  } else if (!parse_number(out.config, key, value, why)) {
    return bad(out, "unknown argument " + key + "; known are " MQNIC_ARGUMENTS);
  } else if (!why.empty()) {
    return bad(out, why);
  }
  out.given.push_back(key);
  return {};
}

Failure check_combination(const Arguments& out) {
  const auto given = [&](const char* key) {
    return std::find(out.given.begin(), out.given.end(), key) != out.given.end();
  };
  if (out.card == "vfio-user") {
    if (out.socket.empty()) return bad(out, "card=vfio-user needs socket=PATH");
    for (const std::string& key : out.given) {
      if (key != "card" && key != "socket" && key != "mac") {
        return bad(out, key + "= belongs to the card's process, not to card=vfio-user");
      }
    }
  } else if (given("socket")) {
    return bad(out, "socket= belongs to card=vfio-user");
  }
  const size_t ports = size_t{out.config.interfaces} * out.config.ports_per_interface;
  if (out.wires.size() > ports) return bad(out, "more wires than the card's " + std::to_string(ports) + " ports");
  return {};
}

}  // namespace

Failure parse_arguments(const std::string& device, const char* text, Arguments& out) {
  out = {};
  out.device = device;
  const std::string all = text == nullptr ? "" : text;
  for (size_t begin = 0; begin < all.size();) {
    size_t end = all.find(',', begin);
    if (end == std::string::npos) end = all.size();
    const std::string item = all.substr(begin, end - begin);
    begin = end + 1;
    if (item.empty()) continue;
    const size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0) return bad(out, item + ": key=value is needed");
    if (Failure f = parse_one(out, item.substr(0, equals), item.substr(equals + 1))) return f;
  }
  return check_combination(out);
}

Failure parse_pci_arguments(const std::string& device, const char* text, std::optional<rte_ether_addr>& mac) {
  Arguments all;
  if (Failure f = parse_arguments(device, text, all)) return f;
  for (const std::string& key : all.given) {
    if (key != "mac") return bad(all, key + "= belongs to a model; of a card there is " MQNIC_PCI_ARGUMENTS);
  }
  mac = all.mac;
  return {};
}

}  // namespace mqnic::ethdev
