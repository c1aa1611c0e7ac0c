// What happens to the port while a program runs: the link comes and goes, the interface gets other addresses. The
// background thread looks a few times a second; the data path knows nothing of it.
#include <algorithm>

#include "dpdk/endpoint_impl.h"
#include "dpdk/log.h"

namespace uroce {
namespace {

constexpr Duration kPortLook = milliseconds(100);

}  // namespace

void EndpointImpl::start_port_watch() {
  link_was_up_ = link_up();
  if (!netdev_name_.empty()) netdev_watch_ = std::make_unique<NetdevWatch>();
}

void EndpointImpl::look_after_port(Instant now) {
  if (now < next_port_look_) return;
  next_port_look_ = now + kPortLook;
  if (netdev_watch_ && !netdev_watch_->changed()) return;
  if (const bool up = link_up(); up != link_was_up_) {
    link_was_up_ = up;
    log_message(LogLevel::kWarning, "port %s: the link is %s", plan_.name.c_str(), up ? "up" : "down");
    const EngineLock owner(*this);
    observer_.on_port_event(up ? AsyncEvent::kPortActive : AsyncEvent::kPortErr);
  }
  // Addresses that the program was given for itself are no business of the interface.
  if (plan_.netdev && config_.addresses.empty()) follow_addresses();
}

void EndpointImpl::follow_addresses() {
  const auto netdev = read_netdev(plan_.netdev->name);
  if (!netdev || netdev->addresses == plan_.netdev->addresses) return;
  std::vector<LocalAddress> usable;
  for (const LocalAddress& address : netdev->addresses) {
    const auto& known = plan_.netdev->addresses;
    std::string error;
    const bool is_new = std::find(known.begin(), known.end(), address) == known.end();
    if (is_new && !port_hold_.take(address, *netdev, error)) {
      log_message(LogLevel::kWarning, "%s", error.c_str());
      continue;
    }
    if (is_new) log_message(LogLevel::kInfo, "address %s is new", to_string(address).c_str());
    usable.push_back(address);
  }
  for (const LocalAddress& address : plan_.netdev->addresses) {
    const auto& left = netdev->addresses;
    if (std::find(left.begin(), left.end(), address) != left.end()) continue;
    log_message(LogLevel::kWarning, "address %s is gone from %s: its connections will fail", to_string(address).c_str(),
                netdev->name.c_str());
    port_hold_.release(address);
  }
  plan_.netdev->addresses = netdev->addresses;
  const EngineLock owner(*this);
  if (engine_->set_addresses(usable)) observer_.on_port_event(AsyncEvent::kGidChange);
}

}  // namespace uroce
