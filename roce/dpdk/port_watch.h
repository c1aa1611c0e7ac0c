// What happens to the port while a program runs: the link comes and goes, the interface gets other addresses. The
// background thread looks a few times a second; the data path knows nothing of it.
#pragma once

#include <memory>

#include "dpdk/endpoint_port.h"
#include "host/netdev_watch.h"
#include "uroce/time.h"

namespace uroce {

class PortWatch {
 public:
  PortWatch(Endpoint& endpoint, EndpointPort& port, Observer& observer)
      : endpoint_(endpoint), port_(port), observer_(observer) {}

  /// The port is open, as it shall be compared with later.
  void start();
  /// Without the engine, which is owned for what has changed.
  void look(Instant now);

 private:
  Endpoint& endpoint_;
  EndpointPort& port_;
  Observer& observer_;
  Instant next_look_{0};
  bool link_was_up_ = true;
  std::unique_ptr<NetdevWatch> netdev_watch_;
};

}  // namespace uroce
