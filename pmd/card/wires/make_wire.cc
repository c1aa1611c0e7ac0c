#include "pmd/card/wires/make_wire.h"

#include <map>

#include "pmd/card/wires/impaired_wire.h"
#include "pmd/card/wires/pcap_wire.h"
#include "pmd/card/wires/plain_wires.h"
#include "pmd/card/wires/shm_wire.h"
#include "pmd/card/wires/tap_wire.h"

namespace mqnic::card {
namespace {

using Maker = std::unique_ptr<Wire> (*)(const std::string& argument, std::string& error);

struct Kind {
  const char* name;
  const char* argument;  // nullptr: this kind takes no argument
  Maker make;
};

constexpr Kind kKinds[] = {
    {"none", nullptr,
     [](const std::string&, std::string&) -> std::unique_ptr<Wire> { return std::make_unique<NoWire>(); }},
    {"loop", nullptr,
     [](const std::string&, std::string&) -> std::unique_ptr<Wire> { return std::make_unique<LoopWire>(); }},
    {"shm", "NAME", ShmWire::open},
    {"tap", "IFNAME", TapWire::open},
    {"pcap", "IN[:OUT]", PcapWire::open},
};

std::map<std::string, WireFactory>& registered() {
  static std::map<std::string, WireFactory> kinds;
  return kinds;
}

std::unique_ptr<Wire> make_plain(const std::string& text, std::string& error) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const std::string argument = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (const auto found = registered().find(name); found != registered().end()) return found->second(argument, error);
  for (const Kind& kind : kKinds) {
    if (name != kind.name) continue;
    if (kind.argument == nullptr && colon != std::string::npos) {
      error = "wire '" + text + "': '" + name + "' takes nothing behind it";
      return nullptr;
    }
    if (kind.argument != nullptr && argument.empty()) {
      error = "wire '" + text + "': write " + name + ":" + kind.argument;
      return nullptr;
    }
    return kind.make(argument, error);
  }
  error = "there is no wire '" + text + "'; there are " + wire_kinds();
  return nullptr;
}

}  // namespace

std::unique_ptr<Wire> make_wire(const std::string& text, const WireKnobs& knobs, std::string& error) {
  std::unique_ptr<Wire> wire = make_plain(text, error);
  if (wire != nullptr && knobs.any()) return std::make_unique<ImpairedWire>(std::move(wire), knobs);
  return wire;
}

void register_wire_kind(const std::string& kind, WireFactory factory) { registered()[kind] = std::move(factory); }

std::string wire_kinds() {
  std::string text;
  const auto add = [&](const std::string& kind) { text += (text.empty() ? "" : ", ") + kind; };
  for (const Kind& kind : kKinds)
    add(kind.argument == nullptr ? kind.name : std::string(kind.name) + ":" + kind.argument);
  for (const auto& [name, factory] : registered()) add(name + ":...");
  return text;
}

}  // namespace mqnic::card
