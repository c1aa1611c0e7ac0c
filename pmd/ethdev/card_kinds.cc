#include "pmd/ethdev/card_kinds.h"

#include <cerrno>
#include <map>
#include <stdexcept>
#include <utility>

#include "pmd/card/inline_card.h"
#include "pmd/card/wires/make_wire.h"
#include "pmd/ethdev/port_wire.h"
#include "pmd/vfio_user/client.h"

namespace mqnic::ethdev {

namespace {

Failure open_inline(const Arguments& arguments, OpenedCard& out) {
  card::register_wire_kind("port", [](const std::string& port, std::string& error) -> std::unique_ptr<card::Wire> {
    return PortWire::open(port, error);
  });
  std::vector<std::unique_ptr<card::Wire>> wires;
  for (const std::string& text : arguments.wires) {
    std::string error;
    std::unique_ptr<card::Wire> wire = card::make_wire(text, arguments.knobs, error);
    if (wire == nullptr)
      return failure(-EINVAL, "%s: wire=%s: %s", arguments.device.c_str(), text.c_str(), error.c_str());
    wires.push_back(std::move(wire));
  }
  std::unique_ptr<card::InlineCard> bus;
  try {
    bus = std::make_unique<card::InlineCard>(arguments.config, std::move(wires), arguments.device);
  } catch (const std::invalid_argument& impossible) {
    return failure(-EINVAL, "%s: no such card can be built: %s", arguments.device.c_str(), impossible.what());
  }
  const unsigned ports = arguments.config.interfaces * arguments.config.ports_per_interface;
  for (unsigned p = 0; p < ports; ++p) out.wire_ends.push_back(bus->wire_end(p));
  out.bus = std::move(bus);
  return {};
}

Failure open_vfio_user(const Arguments& arguments, OpenedCard& out) {
  std::string error;
  out.bus = vfio_user::VfioUserBus::connect(arguments.socket, error);
  if (out.bus != nullptr) return {};
  return failure(-ENODEV, "%s: socket=%s: %s", arguments.device.c_str(), arguments.socket.c_str(), error.c_str());
}

std::map<std::string, CardFactory>& kinds() {
  static std::map<std::string, CardFactory> all = {{"inline", open_inline}, {"vfio-user", open_vfio_user}};
  return all;
}

}  // namespace

void register_card_kind(const std::string& kind, CardFactory factory) { kinds()[kind] = std::move(factory); }

Failure open_card(const Arguments& arguments, OpenedCard& out) {
  const auto found = kinds().find(arguments.card);
  if (found != kinds().end()) return found->second(arguments, out);
  std::string known;
  for (const auto& kind : kinds()) known += (known.empty() ? "" : ", ") + kind.first;
  return failure(-EINVAL, "%s: card=%s: there are %s", arguments.device.c_str(), arguments.card.c_str(), known.c_str());
}

}  // namespace mqnic::ethdev
