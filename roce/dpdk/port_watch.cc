#include "dpdk/port_watch.h"

#include "dpdk/endpoint_registry.h"
#include "dpdk/log.h"

namespace uroce {
namespace {

constexpr Duration kPortLook = milliseconds(100);

}  // namespace

void PortWatch::start() {
  link_was_up_ = endpoint_.link_up();
  // The link of a segment is its uplink's, of which the kernel knows nothing.
  const bool segment = port_.plan().spec.kind == PortKind::kSegment;
  if (!segment && !port_.netdev_name().empty()) netdev_watch_ = std::make_unique<NetdevWatch>();
}

void PortWatch::look(Instant now) {
  if (now < next_look_) return;
  next_look_ = now + kPortLook;
  EndpointRegistry::get().publish_again();
  if (netdev_watch_ && !netdev_watch_->changed()) return;
  if (const bool up = endpoint_.link_up(); up != link_was_up_) {
    link_was_up_ = up;
    log_message(LogLevel::kWarning, "port %s: the link is %s", endpoint_.port_name().c_str(), up ? "up" : "down");
    const EngineLock owner(endpoint_);
    observer_.on_port_event(up ? AsyncEvent::kPortActive : AsyncEvent::kPortErr);
  }
  if (const auto addresses = port_.changed_addresses()) {
    EngineLock engine(endpoint_);
    port_.device().tell_addresses(*addresses);
    if (engine->set_addresses(*addresses)) observer_.on_port_event(AsyncEvent::kGidChange);
  }
}

}  // namespace uroce
