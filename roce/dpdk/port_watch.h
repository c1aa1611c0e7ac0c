// Watches what happens to the port while a program runs: the link comes and goes, or the interface gets other
// addresses. The background thread looks a few times a second; the data path is not involved.
#pragma once

#include <memory>

#include "dpdk/nic_keeper.h"
#include "host/netdev_watch.h"
#include "uroce/time.h"

namespace uroce {

class PortWatch {
 public:
  PortWatch(Endpoint& endpoint, NicKeeper& keeper, Observer& observer)
      : endpoint_(endpoint), keeper_(keeper), observer_(observer) {}

  /// To be called when the port is open: later looks are compared with its present state.
  void start();
  /// To be called without owning the engine; takes ownership only to report changes.
  void look(Instant now);

 private:
  void look_at_link();
  /// A host of a segment has the addresses of the machine, or of its uplink. False when the kernel could not be asked.
  bool follow_machine(bool first);

  Endpoint& endpoint_;
  NicKeeper& keeper_;
  Observer& observer_;
  Instant next_look_{0};
  bool link_was_up_ = true;
  bool on_segment_ = false;
  bool first_look_ = true;
  bool ask_again_ = false;
  std::unique_ptr<NetdevWatch> netdev_watch_;
};

}  // namespace uroce
