// How a port is to be started, as it follows from the configuration (host/port_plan.h).
#pragma once

#include <cstdint>
#include <vector>

#include "uroce/time.h"

namespace uroce {

struct PortOptions {
  uint16_t port_id = 0;               // DPDK's number, known once the device is there
  uint32_t frame_bytes = 4096 + 128;  // the longest frame to send or receive
  uint32_t mtu = 0;                   // to set on the port; 0: leave it alone
  bool wire = false;                  // net_memif: a peer comes and goes
  bool connects = false;              // net_memif client, which has to try again and again
  bool unplug = true;                 // remove the device at the end; not if the application plugged it in
  bool promiscuous = false;           // receive frames for others, too
  std::vector<uint16_t> vlans;        // those of the addresses
  Duration link_patience{};           // how long to wait at the start for a link, which two cards negotiate
};

}  // namespace uroce
