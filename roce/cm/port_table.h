// Which service IDs (ports, and services of InfiniBand) this program's Ids are bound to, and which of them
// listen.
//
// A port of a port space is one service ID. The machine gives it to one program (`Services::claim_service`), in which
// several Ids may share it as the kernel allows: with different addresses, or with `reuse_addr`.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cm/id_state.h"
#include "cm/services.h"

namespace uroce::cm {

class PortTable {
 public:
  explicit PortTable(Services& services) : services_(services) {}

  /// Binds `id`, whose local address is set, to its port, or to a free one if that is 0. An errno.
  int bind(Id& id);
  /// EADDRINUSE if another Id of the port prevents it.
  int listen(Id& id);
  /// Gives the port back.
  void release(Id& id);

  /// The Id that listens to a service at an address of ours: one bound to it comes before one bound to any.
  Id* find_listener(uint64_t service_id, const IpAddress& address) const;

 private:
  struct Holders {
    std::vector<Id*> ids;
    uint32_t listeners = 0;
    uint64_t mask = ~uint64_t{0};
  };

  int take(Id& id, uint64_t service_id, uint64_t mask);
  int take_free_port(Id& id);

  Services& services_;
  std::map<uint64_t, Holders> holders_;  // by service ID
  uint32_t masked_ = 0;                  // services whose mask is not all ones
};

}  // namespace uroce::cm
