#include "host/port_spec.h"

#include <net/if.h>

#include <cctype>

#include "host/port_driver.h"
#include "host/wire_end.h"

namespace uroce {
namespace {

bool is_hex(std::string_view text, size_t digits) {
  if (text.size() != digits) return false;
  for (const char c : text) {
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return false;
  }
  return true;
}

/// Takes "0000:03:00.0" or "03:00.0", and returns the former.
std::optional<std::string> to_pci_address(std::string_view text) {
  std::string domain = "0000";
  if (text.size() > 4 && text[4] == ':') {
    domain = text.substr(0, 4);
    text.remove_prefix(5);
  }
  const bool good = text.size() == 7 && text[2] == ':' && text[5] == '.' && is_hex(domain, 4) &&
                    is_hex(text.substr(0, 2), 2) && is_hex(text.substr(3, 2), 2) && text[6] >= '0' && text[6] <= '7';
  if (!good) return std::nullopt;
  return domain + ":" + std::string(text);
}

std::optional<PortSpec> parse_switch(const std::string& text, std::string& error) {
  PortSpec spec;
  spec.kind = PortKind::kSwitch;
  spec.driver = "net_shmlan";
  spec.wire = text == "switch" ? kDefaultSwitchName : text.substr(std::string_view("switch:").size());
  if (!spec.wire.empty() && valid_wire_name(spec.wire)) return spec;
  error = "port '" + text + "': the name of a switch is 1 to 32 letters, digits, '-', '_' or '.'";
  return std::nullopt;
}

std::optional<PortSpec> parse_segment(const std::string& text, std::string& error) {
  PortSpec spec;
  spec.kind = PortKind::kSegment;
  spec.driver = "net_shmlan";
  spec.leads_out = text == kNetworkPort;
  const bool named = !text.empty() && text != "shmlan" && !spec.leads_out;
  if (named) spec.wire = text.substr(std::string_view("shmlan:").size());
  if (!named || (!spec.wire.empty() && valid_wire_name(spec.wire))) return spec;
  error = "port '" + text + "': the name of a segment is 1 to 32 letters, digits, '-', '_' or '.'";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> PortSpec::arg(std::string_view key) const {
  size_t at = 0;
  while (at < args.size()) {
    const size_t end = std::min(args.find(',', at), args.size());
    const std::string_view pair = std::string_view(args).substr(at, end - at);
    if (pair.size() > key.size() && pair.substr(0, key.size()) == key && pair[key.size()] == '=') {
      return std::string(pair.substr(key.size() + 1));
    }
    at = end + 1;
  }
  return std::nullopt;
}

std::optional<PortSpec> parse_port_spec(const std::string& text, std::string& error) {
  if (text.empty() || text == "shmlan" || text == kNetworkPort || text.rfind("shmlan:", 0) == 0)
    return parse_segment(text, error);
  if (text == "switch" || text.rfind("switch:", 0) == 0) return parse_switch(text, error);
  PortSpec spec;
  const size_t comma = text.find(',');
  spec.device = text.substr(0, comma);
  if (comma != std::string::npos) spec.args = text.substr(comma + 1);
  if (const auto pci = to_pci_address(spec.device)) {
    spec.kind = PortKind::kPci;
    spec.device = *pci;
    return spec;
  }
  spec.kind = PortKind::kVirtual;
  const PortDriver* driver = driver_of_device(spec.device);
  if (driver == nullptr && if_nametoindex(text.c_str()) != 0) {
    error = "port '" + text + "' is an interface of the kernel; a port of it is net_af_packet0,iface=" + text;
    return std::nullopt;
  }
  if (driver == nullptr) {
    error = "port '" + text +
            "': no such driver; a port is shmlan, shmlan:NAME, network, switch:NAME, a PCI address such as "
            "0000:03:00.0, or one of " +
            port_driver_names() + " with its arguments, for example " + port_driver("net_af_packet").example;
    return std::nullopt;
  }
  spec.driver = driver->name;
  // DPDK wants a number after the driver's name.
  if (spec.device == driver->name) spec.device += '0';
  if (driver->netdev != NetdevUse::kNone) spec.netdev = spec.arg("iface").value_or("");
  if (driver->names_netdev && spec.netdev.empty()) {
    error = "port '" + text + "': name the kernel interface, for example " + driver->example;
    return std::nullopt;
  }
  if (driver->netdev == NetdevUse::kMakes && spec.netdev.empty()) {
    spec.netdev = "dtap" + spec.device.substr(std::string_view(driver->name).size());
    spec.args += std::string(spec.args.empty() ? "" : ",") + "iface=" + spec.netdev;
  }
  return spec;
}

}  // namespace uroce
