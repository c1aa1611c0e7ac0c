#include "dpdk/port_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "dpdk/endpoint_registry.h"
#include "dpdk/log.h"
#include "engine/address_table.h"
#include "host/port_driver.h"
#include "host/segment_plan.h"
#include "segment/member_record.h"
#include "transport/observer.h"

namespace uroce {
namespace {

constexpr Duration kPortLook = milliseconds(100);

/// Logs the addresses in `some` that are not in `others`.
void log_missing(LogLevel level, const std::vector<LocalAddress>& some, const std::vector<LocalAddress>& others,
                 const char* what) {
  for (const LocalAddress& address : some) {
    if (std::find(others.begin(), others.end(), address) != others.end()) continue;
    log_message(level, "address %s %s", to_string(address).c_str(), what);
  }
}

}  // namespace

void PortWatch::start() {
  link_was_up_ = endpoint_.link_up();
  on_segment_ = keeper_.plan().spec.kind == PortKind::kSegment;
  if (on_segment_ || !keeper_.netdev_name().empty()) netdev_watch_ = std::make_unique<NetdevWatch>();
}

void PortWatch::look(Instant now) {
  if (now < next_look_) return;
  next_look_ = now + kPortLook;
  EndpointRegistry::get().look_after_note();
  const bool heard = netdev_watch_ && netdev_watch_->changed();
  if (on_segment_) {
    // A segment's link is its uplink's, which the kernel does not know.
    look_at_link();
    // Much may have happened between the plan and the first look.
    const bool first = std::exchange(first_look_, false);
    const bool news = keeper_.nic().address_source()->take_news();
    if (news) {
      const EngineLock owner(endpoint_);
      keeper_.look_at_mtu(endpoint_.engine());
    }
    if (heard || first || news || ask_again_) ask_again_ = !follow_machine(first);
    return;
  }
  if (netdev_watch_ && !heard && !ask_again_) return;
  look_at_link();
  {
    const EngineLock owner(endpoint_);
    keeper_.look_at_mtu(endpoint_.engine());
  }
  if (const auto addresses = keeper_.changed_addresses(ask_again_)) {
    EngineLock engine(endpoint_);
    keeper_.nic().tell_addresses(*addresses);
    // The driver of sockets hears of addresses in this way. On a wire the kernel announces what is its own.
    const bool by_sockets = port_driver(keeper_.plan().spec.driver).netdev == NetdevUse::kSockets;
    if (engine->set_addresses(*addresses, by_sockets ? Announce::kYes : Announce::kNo))
      observer_.on_port_event(AsyncEvent::kGidChange);
  }
}

void PortWatch::look_at_link() {
  const bool up = endpoint_.link_up();
  if (up == std::exchange(link_was_up_, up)) return;
  log_message(LogLevel::kWarning, "port %s: the link is %s", endpoint_.port_name().c_str(), up ? "up" : "down");
  const EngineLock owner(endpoint_);
  observer_.on_port_event(up ? AsyncEvent::kPortActive : AsyncEvent::kPortErr);
}

bool PortWatch::follow_machine(bool first) {
  if (keeper_.addresses_are_given()) return true;
  std::string netdev;
  const auto of_machine = addresses_of_machine(netdev);
  if (!of_machine) return false;
  if (first && of_machine->size() > segment::kAddressesMax)
    log_message(
        LogLevel::kWarning,
        "this machine has %zu addresses, and a GID table room for %zu: the device has those; name others with --addr",
        of_machine->size(), segment::kAddressesMax);
  EngineLock engine(endpoint_);
  const std::vector<LocalAddress> addresses = keeper_.nic().address_source()->choose(*of_machine);
  if (addresses.empty()) return true;
  const std::vector<LocalAddress> before = engine->addresses().present();
  // The others are told first: a peer that sends to a new address then finds this program.
  keeper_.nic().tell_addresses(addresses);
  if (!engine->set_addresses(addresses)) return true;
  const std::vector<LocalAddress> after = engine->addresses().present();
  log_missing(LogLevel::kInfo, after, before, "is new");
  log_missing(LogLevel::kWarning, before, after, "is gone: its connections will fail");
  observer_.on_port_event(AsyncEvent::kGidChange);
  return true;
}

}  // namespace uroce
